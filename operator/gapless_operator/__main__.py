"""Owns ``python -m gapless_operator``; must not know anything else."""

from gapless_operator.main import main

if __name__ == "__main__":
    main()
