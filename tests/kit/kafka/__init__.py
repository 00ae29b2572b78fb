"""Real Kafka brokers, what is put into them, and whether two topics hold the same."""
