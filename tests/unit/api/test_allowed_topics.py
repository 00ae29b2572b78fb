"""Which topics a list opens, and the sentence that refuses the others."""

from __future__ import annotations

import pytest

from gapless_api.base.allowed_topics import AllowedTopics
from gapless_api.base.errors import ConfigurationError


@pytest.mark.parametrize(
    ("entries", "topic", "allowed"),
    [
        ("transfer", "transfer", True),
        ("transfer", "transfer2", False),
        ("transfer", "transfe", False),
        ("transfer-*", "transfer-eu", True),
        ("transfer-*", "transfer-", True),
        ("transfer-*", "transfer", False),
        ("a, transfer", "transfer", True),
        ("*", "__consumer_offsets", True),
        ("a.b", "axb", False),
    ],
)
def test_a_topic_is_allowed_by_its_name_or_by_a_prefix(entries: str, topic: str, allowed: bool) -> None:  # noqa: FBT001
    assert AllowedTopics.parse(entries).allow(topic) is allowed


@pytest.mark.parametrize("text", ["", "a,,b", "**", "a*b", "*a", "a b", "a/b"])
def test_what_is_no_list_of_topics_is_not_taken(text: str) -> None:
    with pytest.raises(ValueError, match="list of topic names"):
        AllowedTopics.parse(text)


def test_the_sentence_names_the_first_topic_and_what_is_allowed() -> None:
    allowed = AllowedTopics.parse("a,b-*")
    allowed.check(["a", "b-1"], what="The bundle")
    with pytest.raises(ConfigurationError) as caught:
        allowed.check(["secrets", "a", "more", "secrets"], what="The bundle")
    assert str(caught.value) == (
        "The bundle requests the topic more and 1 more, and only a, b-* may be used; ask the platform team to add it "
        "to allowedTopics of the KafkaConnection."
    )
