"""How a program connects to Kafka: settings, connection, clients, and what their errors mean."""
