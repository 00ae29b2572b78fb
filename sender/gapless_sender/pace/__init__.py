"""When datagrams may go out: rates, budgets, and their changes while a resend runs."""
