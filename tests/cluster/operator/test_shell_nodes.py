"""The operator beside nodes that do not answer, and with a clock that is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless_api.wire.totals import Totals
from kit.cluster.kubelet import Runs, as_lines
from kit.machine.wall_clock import WallClock, compiler
from kit.story import messages

pytestmark = pytest.mark.integration

SENDING = as_lines(messages.progress(Totals(planned=7, sent=3, remaining=4)))


def sends_for_ever(place: Any) -> Callable[[dict[str, Any]], Any]:
    def behave(pod: dict[str, Any]) -> Any:
        return Runs(SENDING, seconds=-1) if pod["metadata"]["labels"].get("gapless.dev/role") == "send" else usual(pod)

    usual = place.behave
    return behave


@pytest.fixture
def silent(kubelet: Any, place: Any) -> Iterator[Any]:
    """A kubelet that can be cut off; it answers again after the test."""
    yield kubelet
    kubelet.silent.discard(place.name)
    kubelet.is_ready(ready=True)


def test_a_kubelet_that_does_not_answer_keeps_nobody_from_stopping(
    place: Any, operator: Callable[..., Any], silent: Any
) -> None:
    place.behave = sends_for_ever(place)
    operator()
    place.diode()
    place.until("Diode", "north", "Ready", "True", "LinkReady")
    silent.silent.add(place.name)
    place.resend()
    place.until("Resend", "again", "Ready", "False", "Sending")
    place.diode(suspend=True)
    place.until("Resend", "again", "Ready", "False", "DiodeSuspended", seconds=10)
    place.api.eventually(
        lambda: not [name for name in place.names("/api/v1 pods") if "send" in name], what="the end of the pods"
    )
    place.until("Diode", "north", "Ready", "False", "Suspended", seconds=10)


def test_a_node_that_is_lost_is_said_and_what_comes_back_goes_on(
    place: Any, operator: Callable[..., Any], silent: Any
) -> None:
    place.behave = sends_for_ever(place)
    operator()
    place.diode()
    place.until("Diode", "north", "Ready", "True", "LinkReady")
    place.resend()
    place.until("Resend", "again", "Ready", "False", "Sending")
    silent.is_ready(ready=False)
    place.until("Resend", "again", "Ready", "False", "NodeLost", seconds=30)
    place.until("Diode", "north", "LinkUp", "Unknown", "NodeLost", seconds=30)
    silent.is_ready(ready=True)
    place.until("Resend", "again", "Ready", "False", "Sending", seconds=30)


@pytest.mark.skipif(compiler() is None, reason="the clock is a library in C, and there is no compiler")
def test_a_clock_six_minutes_ahead_gives_no_job_up_before_it_has_pods(
    place: Any, operator: Callable[..., Any], tmp_path: Path
) -> None:
    clock = WallClock(tmp_path)
    clock.jump(360)
    running = operator(environment=clock.environment)
    place.diode()
    place.until("Diode", "north", "Ready", "True", "LinkReady")
    # From here on no pod of a sender is admitted, so that its Job has none.
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    path = f"/api/v1/namespaces/{place.name}"
    place.api.request("PATCH", path, label, content="application/merge-patch+json")
    place.resend()
    place.until("Resend", "again", "Ready", "False", "Starting")
    job = place.read("Resend", "again")["status"]["job"]
    time.sleep(4)
    assert place.condition("Resend", "again", "Ready") == ("False", "Starting")
    assert job in place.names("/apis/batch/v1 jobs")
    assert [line for line in running.lines() if line["event"] == "clock offset from the API server changed"]
