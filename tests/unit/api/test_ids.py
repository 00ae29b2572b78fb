from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, EventId, is_topic, parse_event_id


@given(
    st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True), st.integers(0, MAX_PARTITION), st.integers(0, MAX_OFFSET)
)
def test_every_id_of_every_kafka_topic_survives_its_text(topic: str, partition: int, offset: int) -> None:
    identity = EventId(topic, partition, offset)
    assert parse_event_id(str(identity)) == identity


def test_topics_with_underscores_are_split_from_the_right() -> None:
    assert parse_event_id("my_own_topic_1_7") == EventId("my_own_topic", 1, 7)
    assert parse_event_id("__0_0") == EventId("_", 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "", "STATUS", "KEY_UPDATE#", "random_5", "_0_1", "t_0_", "t__1", "t_-1_5", "t_+1_5", "t_01_5", "t_0_05",
        "t_0_9223372036854775808", "t_2147483648_0", "t_0_1.0", "t_0_²", "t_0_٣", "t_0_1 ", "a\nb_0_1", "\ud800_0_1",
    ],
)  # fmt: skip
def test_anything_else_is_no_id(text: str) -> None:
    assert parse_event_id(text) is None


@pytest.mark.parametrize(
    ("text", "good"), [("a.b-c_d", True), ("übertragung", True), ("", False), ("a\tb", False), ("\udcff", False)]
)
def test_a_topic_is_printable_text(text: str, good: bool) -> None:  # noqa: FBT001
    assert is_topic(text) is good
