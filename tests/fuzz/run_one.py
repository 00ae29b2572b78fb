"""Owns one run of one target under atheris, as a process of its own. Must not know which runs there are.

Started by ``make fuzz`` as ``python -m fuzz.run_one PROGRAM TARGET [libFuzzer's options and folders]``, where
PROGRAM is a script that does just that, for libFuzzer starts itself again to merge. It ends the process itself, and its
watchdogs (time and memory for each input) need nothing of Python.
"""

from __future__ import annotations

import logging
import sys

import atheris

with atheris.instrument_imports(include=["gapless_api", "gapless_sender"]):
    from fuzz.sender_targets import CHEAP_PATTERN_BYTES
    from fuzz.targets import TARGETS
    from gapless_sender.replay import input_filter


def main() -> None:
    """Run until libFuzzer has had enough, or a defect is found."""
    program, name, *options = sys.argv[1:]
    target = TARGETS[name]
    logging.disable(logging.CRITICAL)
    input_filter._PATTERN_BYTES = CHEAP_PATTERN_BYTES

    def test_one_input(content: bytes) -> None:
        target.outcome(content)

    atheris.Setup([program, *options], test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
