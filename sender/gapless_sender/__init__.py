"""Replay events from Kafka over a one-way UDP link; must not know Kubernetes or Spark."""
