"""Running the command `gapless` many times without importing its modules each time."""

from __future__ import annotations

import atexit

from kit.machine.forked_commands import ForkedCommands

GAPLESS = ForkedCommands(
    "gapless_api.cli.main:program",
    "cryptography.hazmat.primitives.serialization",
    "gapless_api.bundle.qr_codes",
    "gapless_api.bundle.reader",
    "gapless_api.bundle.signature",
    "gapless_api.bundle.typed_lines",
    "gapless_api.cli.bundle.group",
    "gapless_api.cli.windows",
    "gapless_api.offsets.window_files",
    "gapless_archive.cli.segments",
    "gapless_archive.compaction.compactor",
    "gapless_archive.store.object_store",
    "gapless_kafka.access.connection",
    "gapless_mirror.cli.mirror_groups",
    "gapless_mirror.doctor.command",
    "gapless_mirror.workers.command",
    "gapless_sender.cli.resend",
    "gapless_sender.inventory.command",
    "gapless_sender.workers.resend",
    "gapless_sender.workers.single_process",
    "gapless_spark.audit.command",
    "gapless_spark.cli.commands",
    "gapless_spark.scan.command",
)
"""`gapless`, with the modules of the most frequently tested commands already imported."""

atexit.register(GAPLESS.close)
