"""The command ``gapless`` and what its subcommands share."""
