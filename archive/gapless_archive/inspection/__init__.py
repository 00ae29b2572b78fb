"""What an archive has, and whether it is undamaged."""
