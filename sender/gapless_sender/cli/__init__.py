"""The commands ``gapless resend``, ``gapless link`` and ``gapless inventory``."""
