"""What a mirror notices about itself and both clusters: lag, heartbeats, and why it stands still."""
