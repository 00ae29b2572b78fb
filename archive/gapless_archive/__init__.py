"""Files kept in folders and S3-compatible stores; knows neither Kafka nor Spark."""
