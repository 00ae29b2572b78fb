"""The table of mutated modules and the unit tests that must detect the mutations; must not know how."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]

_ALGEBRA = (
    "api/test_offsets.py",
    "api/test_bundle_algebra.py",
    "api/test_range_accumulator.py",
    "spark/test_received.py",
)
_SENDER = "sender/test_"
_RESEND = ("operator/sending",)
_SCAN = ("operator/gapscan",)


def _of_sender(*names: str) -> tuple[str, ...]:
    return tuple(f"{_SENDER}{name}.py" for name in names)


MODULES: dict[str, tuple[str, ...]] = {
    "gapless_api.offsets.ranges": (
        "api/test_offsets.py",
        "api/test_range_accumulator.py",
        *_of_sender("plan", "range_cursor"),
    ),
    "gapless_api.codec.roaring": ("api/test_gap_records.py", "api/test_roaring.py"),
    "gapless_api.offsets.range_accumulator": _ALGEBRA,
    "gapless_api.bundle.algebra": _ALGEBRA,
    "gapless_sender.source.plan": _of_sender("plan", "range_cursor", "partition_replay", "sharding"),
    "gapless_sender.source.requests": _of_sender("plan", "sharding", "partition_replay"),
    "gapless_sender.wire.packets": _of_sender("packets", "packet_vectors", "given_key", "encryption", "nonces"),
    "gapless_sender.replay.checkpoint": _of_sender("checkpoint", "checkpoint_file", "account", "sharding", "topic_ids"),
    "gapless_sender.replay.saved_progress": _of_sender(
        "checkpoint", "checkpoint_file", "account", "sharding", "topic_ids"
    ),
    "gapless_sender.replay.account": _of_sender(
        "account", "checkpoint", "partition_replay", "report_file", "report_line"
    ),
    "gapless_sender.wire.encryption": _of_sender("encryption", "nonces", "given_key", "packet_vectors", "key_schedule"),
    "gapless_operator.sending.resend.reconcile": _RESEND,
    "gapless_operator.sending.resend.validate": _RESEND,
    "gapless_operator.sending.resend.jobs": _RESEND,
    "gapless_operator.sending.resend.job_outcome": _RESEND,
    "gapless_operator.sending.progress": _RESEND,
    "gapless_operator.sending.resend.bundle": _RESEND,
    "gapless_operator.sending.queries": _RESEND,
    "gapless_operator.engines.scheduling": _SCAN,
    "gapless_operator.engines.endings": _SCAN,
    "gapless_operator.lifecycle.tracks": ("operator/lifecycle", *_SCAN),
    "gapless_operator.lifecycle.work": ("operator/lifecycle", *_SCAN),
    "gapless_operator.lifecycle.reconcile": ("operator/lifecycle", *_SCAN),
    "gapless_operator.scanning.reconcile": _SCAN,
    "gapless_operator.scanning.scheduling": _SCAN,
    "gapless_api.base.schedule": ("operator/gapscan/test_schedule.py",),
    "gapless_operator.scanning.attempts": _SCAN,
    "gapless_operator.scanning.comparison": _SCAN,
    "gapless_operator.scanning.validate": _SCAN,
    "gapless_operator.scanning.conditions": _SCAN,
    "gapless_operator.sending.diode.reconcile": _RESEND,
    "gapless_operator.sending.ledger": _RESEND,
    "gapless_operator.sending.queue": _RESEND,
    "gapless_operator.sending.diode.preflight": _RESEND,
}
"""Module to its unit tests below tests/unit. A test counts for a mutation if it runs the mutated line."""

_FOLDERS = {"gapless_api": "crds", "gapless_sender": "sender", "gapless_spark": "spark", "gapless_operator": "operator"}


def source_of(module: str) -> Path:
    """Return the source file of a module."""
    package, *rest = module.split(".")
    return ROOT / _FOLDERS[package] / package / Path(*rest).with_suffix(".py")


def tests_of(module: str) -> list[Path]:
    """Return the existing test files and folders of a module."""
    return [path for path in (ROOT / "tests" / "unit" / name for name in MODULES[module]) if path.exists()]
