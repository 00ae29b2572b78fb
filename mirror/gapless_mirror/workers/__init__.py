"""Worker processes that share the lanes of a mirror by Kafka's group protocol."""
