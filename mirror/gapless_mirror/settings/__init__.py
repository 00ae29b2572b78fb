"""The settings of a mirror, and the settings files of Kafka's own mirrors."""
