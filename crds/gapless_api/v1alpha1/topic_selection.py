"""How a spec selects topics of a cluster: by name, prefix and pattern, with exclusions.

Must not know what is done with them.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from gapless_api.base.quantities import regular_expression
from gapless_api.v1alpha1.common import KafkaTopic
from gapless_api.v1alpha1.model import LIST_SET, Rule, UniqueItems

TopicMask = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[-._a-zA-Z0-9*]+$")]
"""The name of a topic, in which * matches any characters."""


def _check_pattern(text: str) -> str:
    try:
        regular_expression(text)
    except ValueError as error:
        raise ValueError(f"{text!r} must be {error}; correct it") from None
    return text


Pattern = Annotated[
    str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$"), AfterValidator(_check_pattern)
]
"""A regular expression without line breaks: it becomes a line in the settings of a pod, where a second line would be
another setting."""
TopicNames = Annotated[tuple[KafkaTopic, ...], Field(max_length=256, json_schema_extra=LIST_SET), UniqueItems]
TopicPrefixes = Annotated[tuple[KafkaTopic, ...], Field(max_length=64, json_schema_extra=LIST_SET), UniqueItems]
TopicMasks = Annotated[tuple[TopicMask, ...], Field(max_length=256, json_schema_extra=LIST_SET), UniqueItems]


def topic_selection_rule(verb: str) -> Rule:
    """Return the rule that a spec selects topics; `verb` is what happens to them, such as archive."""

    def holds(spec: Any) -> bool:
        return bool(spec.topics or spec.topic_prefixes or spec.topic_pattern)

    return Rule(
        "(has(self.topics) && size(self.topics) > 0) || (has(self.topicPrefixes) && size(self.topicPrefixes) > 0) "
        "|| has(self.topicPattern)",
        f"give the topics to {verb}: topics, topicPrefixes or topicPattern",
        holds,
        "topics",
    )
