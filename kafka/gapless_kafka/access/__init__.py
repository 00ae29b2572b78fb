"""How a program reaches Kafka: settings, connection, clients, and what their errors mean."""
