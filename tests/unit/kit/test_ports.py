"""No two processes are given the same port, also while nothing listens there."""

from __future__ import annotations

import os
import subprocess
import sys

from kit.machine.processes import TESTS_FOLDER, free_ports

SEARCH_FROM_THE_SAME_PORT = """
import os, sys
os.getpid = lambda: int(sys.argv[1])
from kit.machine.processes import free_ports
print(*free_ports(3))
"""


def ports_of_another() -> set[int]:
    """The ports that another process is given which begins its search where this one does."""
    program = [sys.executable, "-c", SEARCH_FROM_THE_SAME_PORT, str(os.getpid())]
    environment = {**os.environ, "PYTHONPATH": str(TESTS_FOLDER)}
    return set(
        map(int, subprocess.run(program, check=True, capture_output=True, text=True, env=environment).stdout.split())
    )


def test_a_port_belongs_to_one_process_until_that_ends() -> None:
    mine = set(free_ports(3))
    others = ports_of_another()
    assert len(mine | others) == 6
    # The other has ended, so that what it had may be given again.
    assert others & ports_of_another()
