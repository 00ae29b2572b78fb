"""The reconciler of KafkaConnection."""
