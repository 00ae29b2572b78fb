"""PySpark jobs that find what is missing; must not know Kubernetes or UDP."""
