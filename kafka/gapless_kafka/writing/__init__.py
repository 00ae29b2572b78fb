"""Writing to Kafka in transactions that hold the position of the source; must not know where records come from."""
