"""The settings of the jobs' commands; nothing slow may be imported here, because ``--help`` needs this package."""
