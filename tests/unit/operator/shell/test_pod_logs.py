"""Logs are read in the background and only when they can have changed; an unreachable kubelet blocks no caller."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from gapless_api.wire.progress import PROGRESS_LINE
from gapless_api.wire.totals import Totals
from gapless_operator.common.observed import ObservedNode
from gapless_operator.shell.cache.pod_logs import PodLogs
from kit.story import messages

PROGRESS = messages.progress(Totals(planned=2, sent=1, remaining=1))
START = datetime(2026, 11, 20, 10, tzinfo=UTC)
ENDED = {"terminated": {"exitCode": 0}}


class Kubelets:
    """Where logs come from, and a clock."""

    def __init__(self) -> None:
        self.text: str | None = json.dumps(PROGRESS) + "\n"
        self.asked: list[tuple[str, int]] = []
        self.away = ""
        self.seconds = 0.0
        self.changed: list[str] = []
        self.nodes: dict[str, ObservedNode] = {}
        self.logs = PodLogs(
            self,
            start=lambda read: read(),
            on_change=self._changed,
            node=self.nodes.get,
            clock=lambda: self.seconds,
            now=lambda: START + timedelta(seconds=self.seconds),
        )

    def _changed(self, pod: Mapping[str, Any]) -> None:
        self.changed.append(pod["metadata"]["name"])

    def log(self, _namespace: str, _pod: str, container: str, *, tail_lines: int, max_bytes: int) -> str | None:
        assert max_bytes > 1_000_000
        self.asked.append((container, tail_lines))
        if self.away:
            raise TimeoutError(self.away)
        return self.text


def pod(
    state: dict[str, Any], *, init: dict[str, Any] | None = None, name: str = "p", node: str = "node-1"
) -> dict[str, Any]:
    status: dict[str, Any] = {
        "containerStatuses": [{"name": "sidecar", "state": {"running": {}}}, {"name": "sender", "state": state}]
    }
    if init is not None:
        status["initContainerStatuses"] = [{"name": "fetch", "state": init}]
    spec = {"containers": [{"name": "sender"}, {"name": "sidecar"}], "nodeName": node}
    return {"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": spec, "status": status}


def test_a_pod_that_has_not_begun_has_no_log() -> None:
    at = Kubelets()
    for begun_not in (pod({"waiting": {"reason": "ContainerCreating"}}), {"metadata": {"name": "p", "namespace": "n"}}):
        found = at.logs.log(begun_not)
        assert (found.output.progress, found.problem, found.is_unread) == (None, "", False)
    assert at.asked == []


def test_a_log_that_nobody_has_read_yet_is_unread_and_not_empty() -> None:
    """As after a start of the operator: what runs for days would look silent."""
    at, pending = Kubelets(), list[Any]()
    logs = PodLogs(at, start=pending.append)
    for state in ({"running": {}}, ENDED):
        assert logs.log(pod(state, name=str(state))).is_unread
        pending.pop()()
        assert not logs.log(pod(state, name=str(state))).is_unread


def test_what_the_end_of_a_log_no_longer_reaches_stays_known_until_the_container_is_started_again() -> None:
    """A program that archives a thousand topics writes as many lines between two about its progress."""
    at = Kubelets()
    assert at.logs.log(pod({"running": {"startedAt": "1"}})).output.progress is not None
    at.text = "another line\n" * 200
    for began, known in (("1", True), ("2", False)):
        at.seconds += 4
        found = at.logs.log(pod({"running": {"startedAt": began}}))
        assert (found.output.progress is not None) == known
        assert at.logs.log(pod({"terminated": {"exitCode": 0, "startedAt": began}})).output == found.output


def test_the_log_of_a_running_pod_is_read_every_few_seconds() -> None:
    at = Kubelets()
    for _ in range(3):
        assert at.logs.log(pod({"running": {}})).output.progress == PROGRESS_LINE.from_json(PROGRESS)
    assert len(at.asked) == 1
    at.seconds = 3.5
    at.logs.log(pod({"running": {}}))
    assert [container for container, _ in at.asked] == ["sender", "sender"]
    assert at.changed == ["p"], "nothing new was read the second time"


def test_the_log_of_an_ended_pod_is_read_once_more_with_more_lines() -> None:
    at = Kubelets()
    at.logs.log(pod({"running": {}}))
    at.text = "gapless: It went wrong.\n"
    found = at.logs.log(pod({"terminated": {"exitCode": 3}}))
    assert (found.output.error_message, found.is_unread) == ("It went wrong.", False)
    at.seconds = 1000.0
    at.logs.log(pod({"terminated": {"exitCode": 3}}))
    assert len(at.asked) == 2
    assert at.asked[1][1] > at.asked[0][1]


def test_a_container_that_is_started_again_in_its_pod_is_read_again() -> None:
    """As a mirror worker that has ended with a message, and that the kubelet has restarted."""
    at = Kubelets()
    final = json.dumps(messages.report(Totals(planned=2, sent=1, remaining=1))) + "\n"
    at.text = final
    ended = pod({"terminated": {"exitCode": 3, "startedAt": "1"}})
    for _ in range(2):
        assert at.logs.log(ended).output.is_complete
    assert len(at.asked) == 1, "it is final"
    at.text = json.dumps(PROGRESS) + "\n"
    again = pod({"running": {"startedAt": "2"}})
    for _ in range(2):
        at.seconds += 4
        found = at.logs.log(again).output
        assert (found.progress is not None, found.is_complete) == (True, False)
    assert len(at.asked) == 3, "a running container is never final"
    for began in ("2", "3"):  # the third time nobody has seen it run
        at.text = final if began == "2" else json.dumps(PROGRESS) + "\n"
        found = at.logs.log(pod({"terminated": {"exitCode": 3, "startedAt": began}})).output
        assert found.is_complete == (began == "2")


def test_the_last_words_of_a_pod_may_come_late_and_are_not_waited_for_for_ever() -> None:
    at = Kubelets()
    at.logs.log(pod(ENDED))
    at.text, at.seconds = "gapless: It went wrong.\n", 10.0
    assert at.logs.log(pod(ENDED)).output.error_message == "It went wrong."
    at = Kubelets()
    for at.seconds in (0.0, 10.0, 31.0, 60.0, 600.0):
        at.logs.log(pod(ENDED))
    assert len(at.asked) == 3


def test_the_log_of_a_failed_init_container_is_read() -> None:
    at = Kubelets()
    at.logs.log(pod({"waiting": {"reason": "PodInitializing"}}, init={"terminated": {"exitCode": 2}}))
    assert at.asked[0][0] == "fetch"


def test_the_log_of_a_container_that_ran_beside_the_others_is_not_read() -> None:
    at = Kubelets()
    ended = pod({"terminated": {"exitCode": 4}}, init={"terminated": {"exitCode": 143}})
    ended["spec"]["initContainers"] = [{"name": "fetch", "restartPolicy": "Always"}]
    at.logs.log(ended)
    assert at.asked[0][0] == "sender"


def test_a_log_that_is_gone_keeps_the_last_output() -> None:
    at = Kubelets()
    before = at.logs.log(pod({"running": {}}))
    at.text, at.seconds = None, 10.0
    assert at.logs.log(pod(ENDED)).output == before.output


def test_only_retained_pods_have_logs() -> None:
    at = Kubelets()
    at.text = "gapless: It went wrong.\n"
    at.logs.log(pod(ENDED))
    at.logs.retain({"p"})
    at.logs.log(pod(ENDED))
    assert len(at.asked) == 1
    at.logs.retain(set())
    at.logs.log(pod(ENDED))
    assert len(at.asked) == 2


def test_an_unreadable_log_keeps_its_output_and_is_retried_with_growing_pauses() -> None:
    at = Kubelets()
    at.logs.log(pod({"running": {}}))
    at.away, at.seconds = "no answer", 10.0
    for at.seconds in range(10, 70):
        found = at.logs.log(pod({"running": {}}))
        assert found.output.progress == PROGRESS_LINE.from_json(PROGRESS), "what was known stays"
        assert (found.problem, found.since, found.is_unread) == ("no answer", START + timedelta(seconds=10), True)
    assert len(at.asked) == 1 + 4, "after 5, 10 and 20 seconds"
    assert at.changed == ["p", "p"], "told once"
    at.away, at.seconds = "", 200.0
    assert at.logs.log(pod({"running": {}})).problem == ""
    assert at.changed == ["p", "p", "p"]


def test_the_log_of_a_pod_on_a_lost_node_is_not_read() -> None:
    at = Kubelets()
    at.logs.log(pod({"running": {}}))
    at.nodes["node-1"] = ObservedNode(name="node-1", ready=False, since=START)
    at.seconds = 60.0
    found = at.logs.log(pod({"running": {}}))
    assert (found.problem, found.since, found.is_unread) == ("node node-1 is not ready", START, True)
    assert found.output.progress is not None
    assert len(at.asked) == 1
    at.nodes["node-1"] = ObservedNode(name="node-1", ready=True, since=START)
    assert at.logs.log(pod({"running": {}})).problem == ""
    assert len(at.asked) == 2


def test_an_unreachable_kubelet_delays_only_its_own_pods() -> None:
    """Asked for in reconciles, read in threads: with as many pods on the dead node as there are readers."""
    hangs, read = threading.Event(), threading.Semaphore(0)

    class Source:
        def log(self, _namespace: str, name: str, _container: str, *, tail_lines: int, max_bytes: int) -> str | None:
            assert tail_lines < max_bytes
            if name.startswith("dead"):
                assert hangs.wait(60)
                raise TimeoutError("no answer")
            read.release()
            return json.dumps(PROGRESS) + "\n"

    with ThreadPoolExecutor(2) as readers:
        logs = PodLogs(Source(), start=readers.submit, clock=lambda: 0.0)
        dead = [pod({"running": {}}, name=f"dead-{number}", node="dead") for number in range(4)]
        for one in dead:
            assert logs.log(one).output.progress is None, "nobody waits"
        for number in range(4):
            logs.log(pod({"running": {}}, name=f"well-{number}", node=f"node-{number}"))
            assert read.acquire(timeout=60)
        hangs.set()
    assert [logs.log(one).problem for one in dead] == ["no answer"] * 4
