"""What a Diode asks for, as pure functions: preflight, windows, the queue, the ledger, and the reconciler."""
