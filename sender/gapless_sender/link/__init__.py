"""The UDP link: socket, system calls, transmission, and session keys sent over it."""
