"""How clusters, brokers, groups and files are observed; nothing is changed and nothing is judged."""
