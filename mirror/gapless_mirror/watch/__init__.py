"""The watch of a mirror: lag, heartbeats, the state of both clusters, and the reasons of stalls."""
