"""Configuration files of other mirrors, for ``gapless mirror import``."""
