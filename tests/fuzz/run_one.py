"""One run of a target under atheris, as a process of its own. Must not know the other runs.

``make fuzz`` runs ``python -m fuzz.run_one PROGRAM TARGET [libFuzzer's options and folders]``, where PROGRAM is a
script with the same command, because libFuzzer restarts itself to merge. libFuzzer ends the process itself, and its
limits (time and memory for each input) work without Python.
"""

from __future__ import annotations

import logging
import sys

import atheris

with atheris.instrument_imports(include=["gapless_api", "gapless_kafka", "gapless_mirror", "gapless_sender"]):
    from fuzz.sender_targets import CHEAP_PATTERN_BYTES
    from fuzz.targets import TARGETS
    from gapless_sender.replay import input_filter


def main() -> None:
    """Run until libFuzzer reaches its limits, or a defect is found."""
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
