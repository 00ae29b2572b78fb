"""Running Spark: session, Java, jars, progress, and how its tasks read Kafka."""
