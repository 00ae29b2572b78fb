"""``gapless restore``: write archived records back to Kafka."""
