"""Stand-ins for the receiver and the gap detector of the peer, written from the description of its formats."""
