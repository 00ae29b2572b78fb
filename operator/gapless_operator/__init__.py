"""Gapless for Kubernetes: the operator. It arrives with the custom resources."""
