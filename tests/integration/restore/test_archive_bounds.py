"""The proof that an archive is written and restored only as the arguments of a pod allow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.base.exit_codes import ExitCode
from integration.restore.conftest import REGION, Gapless, content

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


def test_topics_and_regions_that_are_not_allowed_are_neither_archived_nor_restored(  # noqa: PLR0917
    kafka: KafkaBroker,
    topic: TopicFactory,
    gapless: Gapless,
    archived: Callable[..., None],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_topic, payroll, target = topic(), topic(), topic()
    for name in (open_topic, payroll):
        kafka.produce(name, [b"1", b"2"])
    monkeypatch.setenv("GAPLESS_ARCHIVE_ARCHIVE_ALLOWED_TOPICS", "*")
    monkeypatch.setenv("GAPLESS_RESTORE_ARCHIVE_ALLOWED_TOPICS", "*")

    def refused(*arguments: str) -> str:
        ended = gapless(*arguments, f"--archive-allowed-topics={open_topic}", "--archive-allowed-regions=site-*")
        assert ended.code == ExitCode.BAD_CONFIGURATION, ended.err
        return ended.err

    archive = ("archive", "--once", "--engine=local")
    both = f"--topic-pattern={open_topic}|{payroll}"
    assert f"The archive requests the archived topic {payroll}" in refused(*archive, both, "--region=site-a")
    assert "The archive requests the region b, " in refused(*archive, f"--topics={open_topic}", "--region=b")
    assert not place.exists()
    archived(open_topic, payroll)
    restore = ("restore", f"--to-topic={target}", "--engine=local")
    assert f"The restore requests the archived topic {payroll}" in refused(*restore, f"--topics={payroll}")
    assert "The restore requests the region b" in refused(*restore, f"--topics={open_topic}", "--region=b")
    assert content(kafka, target) == []
    allowed = ("--archive-allowed-topics=" + open_topic, f"--archive-allowed-regions={REGION}")
    assert gapless(*restore, f"--topics={open_topic}", *allowed).code == 0
    assert [row.value for row in content(kafka, target)] == [b"1", b"2"]
