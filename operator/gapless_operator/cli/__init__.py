"""The command ``gapless ledger``."""
