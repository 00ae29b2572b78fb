"""An exception that no rule expects stops one partition of a restore, and everything else is restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from gapless_spark.archiving.restore import task
from integration.restore.conftest import REGION, Gapless, content

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


_RECORDS, _PARTITIONS = 30, 3


@pytest.mark.parametrize(("where", "before"), [("prepare_records", 10), ("read_ranges", 0)])
def test_an_exception_for_one_partition_stops_it_and_nothing_else_is_lost(  # noqa: PLR0917 -- fixtures
    kafka: KafkaBroker,
    topic: TopicFactory,
    archived: Any,
    gapless: Gapless,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    before: int,
) -> None:
    """Where the archive is read, and after some records were prepared."""
    source, target = topic(partitions=_PARTITIONS), topic(partitions=_PARTITIONS)
    for partition in range(_PARTITIONS):
        kafka.write(source, [{"value": b"%d" % number, "partition": partition} for number in range(_RECORDS)])
    archived(source)
    original = getattr(task, where)
    left = ["one defect"]

    def prepare(items: Iterable[Any], size: int) -> Iterator[Any]:
        for number, part in enumerate(original(items, size)):
            if number == 1 and left:
                raise KeyError("the content of a record" + left.pop())
            yield part

    def read(*arguments: Any) -> Any:
        if left:
            raise KeyError("the content of a record" + left.pop())
        return original(*arguments)

    monkeypatch.setattr(task, where, prepare if where == "prepare_records" else read)
    restore = ("restore", f"--topics={source}", f"--to-topic={target}", f"--region={REGION}", "--engine=local")
    ended = gapless(*restore, "--batch-size=10")
    said = " ".join(ended.err.split())
    assert ended.code == 4, ended.err
    assert f"partition 0 of {REGION}/{source} at offset {before}: an unexpected error in Gapless (KeyError in " in said
    assert "the content of a record" not in ended.err + ended.out + str(ended.report)
    copies = [content(kafka, target, partition) for partition in range(_PARTITIONS)]
    assert [len(each) for each in copies] == [before, *[_RECORDS] * (_PARTITIONS - 1)]
    assert gapless(*restore).code == 0
    for partition in range(_PARTITIONS):
        assert content(kafka, target, partition) == content(kafka, source, partition)
