"""The wire format: packets, encryption, compression, and the schedule and file of session keys."""
