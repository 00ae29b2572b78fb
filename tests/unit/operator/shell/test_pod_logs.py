"""Logs are read when they can have changed, and not once more."""

from __future__ import annotations

import json
from typing import Any

from gapless_api.wire.progress import PROGRESS_LINE
from gapless_api.wire.totals import Totals
from gapless_operator.shell.pod_logs import PodLogs
from kit import messages

PROGRESS = messages.progress(Totals(planned=2, sent=1, remaining=1))


class Source:
    def __init__(self) -> None:
        self.text: str | None = json.dumps(PROGRESS) + "\n"
        self.asked: list[tuple[str, int]] = []

    def log(self, _namespace: str, _pod: str, container: str, *, tail_lines: int, most_bytes: int) -> str | None:
        assert most_bytes > 1_000_000
        self.asked.append((container, tail_lines))
        return self.text


def pod(state: dict[str, Any], *, init: dict[str, Any] | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {
        "containerStatuses": [{"name": "sidecar", "state": {"running": {}}}, {"name": "sender", "state": state}]
    }
    if init is not None:
        status["initContainerStatuses"] = [{"name": "fetch", "state": init}]
    spec = {"containers": [{"name": "sender"}, {"name": "sidecar"}]}
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": status}


def logs() -> tuple[PodLogs, Source, list[float]]:
    source, now = Source(), [0.0]
    return PodLogs(source, clock=lambda: now[0]), source, now


def test_a_pod_that_has_not_begun_has_no_log() -> None:
    made, source, _ = logs()
    assert made.output(pod({"waiting": {"reason": "ContainerCreating"}})) is None
    assert made.output({"metadata": {"name": "p", "namespace": "n", "uid": "u"}}) is None
    assert source.asked == []


def test_a_running_pod_is_asked_every_few_seconds() -> None:
    made, source, now = logs()
    for _ in range(3):
        output = made.output(pod({"running": {}}))
        assert output is not None
        assert output.progress == PROGRESS_LINE.from_json(PROGRESS)
    assert len(source.asked) == 1
    now[0] = 3.5
    made.output(pod({"running": {}}))
    assert [container for container, _ in source.asked] == ["sender", "sender"]


def test_a_pod_that_ended_is_asked_once_more_and_for_all_of_its_end() -> None:
    made, source, now = logs()
    made.output(pod({"running": {}}))
    source.text = "gapless: It went wrong.\n"
    output = made.output(pod({"terminated": {"exitCode": 3}}))
    assert output is not None
    assert output.complaint == "It went wrong."
    now[0] = 1000.0
    made.output(pod({"terminated": {"exitCode": 3}}))
    assert len(source.asked) == 2
    assert source.asked[1][1] > source.asked[0][1]


def test_an_init_container_that_failed_has_the_word() -> None:
    made, source, _ = logs()
    made.output(pod({"waiting": {"reason": "PodInitializing"}}, init={"terminated": {"exitCode": 2}}))
    assert source.asked[0][0] == "fetch"


def test_a_log_that_is_gone_leaves_what_was_known() -> None:
    made, source, now = logs()
    before = made.output(pod({"running": {}}))
    source.text, now[0] = None, 10.0
    assert made.output(pod({"terminated": {"exitCode": 0}})) == before


def test_only_pods_that_are_kept_are_remembered() -> None:
    made, source, _ = logs()
    made.output(pod({"terminated": {"exitCode": 0}}))
    made.keep({"u"})
    made.output(pod({"terminated": {"exitCode": 0}}))
    assert len(source.asked) == 1
    made.keep(set())
    made.output(pod({"terminated": {"exitCode": 0}}))
    assert len(source.asked) == 2
