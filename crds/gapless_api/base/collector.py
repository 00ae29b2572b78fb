"""Owns how rarely Python looks for cycles in a process through which millions of objects pass, none of them in a cycle.

Looking for cycles among records took a third of a scan, and an eighth of a mirror.
"""

from __future__ import annotations

import gc

_THRESHOLDS = (50_000, 50, 100)


def collect_rarely() -> None:
    """Look for cycles rarely from now on, and never among the objects that there are now."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
