"""The reconciler of the Resend: stop, conclude, validate, then plan, queue and start."""
