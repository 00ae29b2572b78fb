"""Owns how a spec chooses topics of a cluster: by name, prefix and pattern, without those that are excluded.

Must not know what is done with them.
"""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from gapless_api.v1alpha1.common import KafkaTopic
from gapless_api.v1alpha1.model import LIST_SET, EachOnce, Rule

TopicMask = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[-._a-zA-Z0-9*]+$")]
"""A topic's name, in which * stands for any characters."""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression ({error}); correct it") from None
    return text


Pattern = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$"), AfterValidator(_pattern)]
"""A regular expression, in one line: it becomes a line of a pod's settings, where a second one would be another
setting."""
TopicNames = Annotated[tuple[KafkaTopic, ...], Field(max_length=256, json_schema_extra=LIST_SET), EachOnce]
TopicPrefixes = Annotated[tuple[KafkaTopic, ...], Field(max_length=64, json_schema_extra=LIST_SET), EachOnce]
TopicMasks = Annotated[tuple[TopicMask, ...], Field(max_length=256, json_schema_extra=LIST_SET), EachOnce]


def chooses_topics(verb: str) -> Rule:
    """The rule that a spec chooses topics at all; `verb` says what happens to them, such as archived."""

    def holds(spec: Any) -> bool:
        return bool(spec.topics or spec.topic_prefixes or spec.topic_pattern)

    return Rule(
        "(has(self.topics) && size(self.topics) > 0) || (has(self.topicPrefixes) && size(self.topicPrefixes) > 0) "
        "|| has(self.topicPattern)",
        f"say which topics are {verb}: topics, topicPrefixes or topicPattern",
        holds,
        "topics",
    )
