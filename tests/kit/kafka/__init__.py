"""Real Kafka brokers, test data for them, and the comparison of topics."""
