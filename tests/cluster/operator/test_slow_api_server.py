"""An API server that gives each answer after three seconds: everything takes longer, and nothing happens twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.network.forwarder import forwarder

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

ANSWER_SECONDS = 3.0


def test_answers_after_three_seconds_change_nothing_but_the_time(
    place: Any, operator: Callable[..., Any], kubelet: Any, tmp_path: Path
) -> None:
    with forwarder(place.api.port, ANSWER_SECONDS) as late:
        running = operator(kubeconfig=place.api.kubeconfig_through(late.port, tmp_path))
        place.diode()
        place.resend()
        place.gap_scan()
        place.until("GapScan", "night", "Ready", "True", "GapsFound", seconds=180)
        place.until("Resend", "again", "Succeeded", "True", "Sent", seconds=180)
        place.api.eventually(running.healthy, what="a process that is alive")
        begun = [each["metadata"] for each in kubelet.begun if each["metadata"]["namespace"] == place.name]
        assert Counter(each["labels"]["gapless.dev/role"] for each in begun) == {"preflight": 1, "send": 1, "scan": 1}
