"""``gapless restore``: segments of an archive back into Kafka."""
