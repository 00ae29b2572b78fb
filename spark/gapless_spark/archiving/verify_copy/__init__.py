"""``gapless verify-copy``: whether two copies of a topic hold the same records, in Kafka or in an archive."""
