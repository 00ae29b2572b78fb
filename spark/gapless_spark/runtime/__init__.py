"""The Spark runtime: session, Java, progress, and how tasks read Kafka."""
