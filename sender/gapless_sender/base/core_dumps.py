"""Owns that the memory of a sender, which holds keys, is not written to disk when it crashes.

Must not know the keys.
"""

from __future__ import annotations

import resource

_NOTHING_EVEN_FOR_PROGRAMS = 1
"""Bytes. The kernel writes no file that is shorter than a page, and with just this limit it also starts no program that
collects core dumps (core(5): ``|/program``), to which a limit of 0 would mean nothing."""


def forbid_core_dumps() -> None:
    """Have this process, and those that it starts, leave no core dump; nobody can allow it again.

    PR_SET_DUMPABLE is left alone: it would take /proc/self from a process that is not root, and with it /dev/stdout.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    limit = _NOTHING_EVEN_FOR_PROGRAMS if most == resource.RLIM_INFINITY else min(most, _NOTHING_EVEN_FOR_PROGRAMS)
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
