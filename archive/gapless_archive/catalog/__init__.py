"""Which segments an archive has, and how that changes: chains of commits."""
