"""The contract of Gapless: formats, resources and rules that all packages and the peer share.

Must not know clients of Kubernetes and Kafka, or Spark.
"""
