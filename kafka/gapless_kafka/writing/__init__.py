"""Transactions that write records and the position of their source; must not know where records come from."""
