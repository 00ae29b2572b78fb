"""The API gapless.dev/v1alpha1: every kind, its conditions and reasons, and the CRDs made from them."""
