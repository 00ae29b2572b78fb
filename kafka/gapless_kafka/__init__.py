"""Reaching Kafka: connection, errors, topic descriptions; knows neither UDP nor Spark nor Kubernetes."""
