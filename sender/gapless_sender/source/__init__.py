"""What is to be resent, and how it is read from Kafka."""
