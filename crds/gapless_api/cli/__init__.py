"""The command ``gapless``, and the code that its subcommands share."""
