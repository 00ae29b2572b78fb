"""The contract of Gapless: what every part and every peer agrees on.

Plain data only. Nothing here knows a Kubernetes client, a Kafka client or Spark.
"""
