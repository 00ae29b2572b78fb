"""The command ``gapless bundle``."""
