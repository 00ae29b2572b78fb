"""Archives in folders and S3-compatible stores; must not know Kafka's protocol or Spark."""
