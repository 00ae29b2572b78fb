"""Diode and Resend: preflight, queue, ledger, Jobs of senders, and both reconcilers."""
