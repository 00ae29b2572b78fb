"""The proof that batches fit into the topics that they are written to."""

from __future__ import annotations

from gapless_kafka.topics.target_topics import TopicDescription
from gapless_kafka.writing.transactions import MAX_BATCH_BYTES, batch_bytes


def topic(limit: str | None) -> TopicDescription:
    configuration = {} if limit is None else {"max.message.bytes": limit}
    return TopicDescription(name="t", id="", partitions=1, replicas=1, configuration=configuration)


def test_batches_fit_into_the_topic_with_the_lowest_limit() -> None:
    assert batch_bytes([]) == MAX_BATCH_BYTES
    assert batch_bytes([topic("1048588"), topic(None)]) == MAX_BATCH_BYTES - 1024
    assert batch_bytes([topic("1048588")]) == MAX_BATCH_BYTES
    assert batch_bytes([topic("1048588"), topic("20000")]) == 18_976
    assert batch_bytes([topic("10")]) == 1024
