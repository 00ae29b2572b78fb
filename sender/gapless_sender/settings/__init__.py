"""The settings of the sender's commands; nothing slow may be imported here, because ``--help`` needs this package."""
