"""What a Resend asks for, as pure functions: identity, properties, manifests, progress, and the reconciler."""
