"""Access to Kafka: connection, errors, topics, reading, writing; must not know UDP, Spark or Kubernetes."""
