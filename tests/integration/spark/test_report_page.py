from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import TopicFactory
    from integration.spark.conftest import Gapless
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_an_audit_writes_a_page(kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless, tmp_path: Path) -> None:
    name = topic()
    keys = [f"transfer_0_{offset}".encode() for offset in range(3000) if not 1000 <= offset < 1500]
    kafka.produce(name, [b"event"] * len(keys), partition=0, keys=keys)
    page = tmp_path / "page.html"
    run = ("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={name}")
    ended = gapless(*run, f"--html={page}")
    assert ended.code == 0
    assert ended.report is not None
    assert ended.report["biggest_gaps"][0]["first_offset"] == 1000
    assert sum(ended.report["gap_map"][0]["bins"]) == 500
    text = re.sub("</?span>", "", page.read_text())
    assert "<h1>500 events are missing, in 1 range of 1 partition; 0 of 1 partition are complete." in text
    assert f"--bootstrap-servers={kafka.bootstrap} --topics={name}" in text
