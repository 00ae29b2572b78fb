"""Stand-ins for the peer's receiver and gap detector, written from the description of its formats."""
