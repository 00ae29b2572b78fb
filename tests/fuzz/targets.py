"""The list of fuzz targets. Must not know how they are run."""

from __future__ import annotations

from fuzz.contract_targets import CONTRACT_TARGETS
from fuzz.mirror_targets import MIRROR_TARGETS
from fuzz.sender_targets import SENDER_TARGETS

TARGETS = {target.name: target for target in (*SENDER_TARGETS, *CONTRACT_TARGETS, *MIRROR_TARGETS)}
