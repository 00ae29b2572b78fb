"""``gapless archive``: from Kafka's topics to segments of an archive."""
