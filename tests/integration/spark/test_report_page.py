from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TopicFactory
    from integration.spark.conftest import Gapless
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_an_audit_writes_a_page_and_goes_on_with_the_history(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    name = topic()
    keys = [f"transfer_0_{offset}".encode() for offset in range(3000) if not 1000 <= offset < 1500]
    kafka.produce(name, [b"event"] * len(keys), partition=0, keys=keys)
    page, history = tmp_path / "page.html", tmp_path / "history.json"
    run = ("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={name}")
    for runs in (1, 2):
        ended = gapless(*run, f"--html={page}", f"--history={history}")
        assert ended.code == 0
        assert ended.report is not None
        assert [entry["missing"] for entry in ended.report["history"]] == [500] * runs
    assert ended.report["biggest_gaps"][0]["first_offset"] == 1000
    assert sum(ended.report["gap_map"][0]["bins"]) == 500
    text = re.sub("</?span>", "", page.read_text())
    assert "<h1>500 events are missing, in 1 range of 1 partition; 0 of 1 partition are complete." in text
    assert f"--bootstrap-servers={kafka.bootstrap} --topics={name}" in text


def test_a_file_that_is_no_history_ends_the_run_before_anything_is_written(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path
) -> None:
    history = tmp_path / "history.json"
    history.write_text("mine")
    ended = gapless("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={topic()}", f"--history={history}")
    assert (ended.code, ended.bundle, history.read_text()) == (2, None, "mine")
