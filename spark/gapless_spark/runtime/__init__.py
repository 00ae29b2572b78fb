"""Running Spark: session, Java, progress, and how its tasks read Kafka."""
