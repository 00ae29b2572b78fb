"""Owns what all models of the API have in common: strictness, rules in two languages, and how a mistake is told.

Must not know any kind. A model is the one source of its part of the CRD: attribute docstrings become the descriptions
that ``kubectl explain`` shows, bounds become schema, and a `Rule` is one sentence with one meaning in CEL (for the API
server) and in Python (for us).
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails

from gapless_api.base.errors import ConfigurationError
from gapless_api.codec.canonical import moment_text

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d([.]\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
LONGEST_MESSAGE = 4096
"""Characters of a message in a status; a longer one is cut, because the API server would refuse the status."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that must hold between the fields of one object."""

    cel: str
    """For the API server; ``self`` is the object."""
    message: str
    """What is wrong and what to write instead, without a full stop."""
    holds: Callable[[Any], bool]
    """The same for the model."""
    field: str = ""
    """The field to point at, in camelCase; empty for the object."""
    stored: str = ""
    """In CEL, with ``oldSelf.value()`` for the object as it is stored: what may stay as it is. The API server tries the
    rules of a spec also when only the status is written, which could not say then what is wrong."""

    @property
    def expression(self) -> str:
        """All of it for the API server."""
        return f"({self.cel}) || (oldSelf.hasValue() && ({self.stored}))" if self.stored else self.cel


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """Something that must hold between an object and what it was before; only the API server can tell."""

    cel: str
    message: str
    field: str = ""


class ApiModel(BaseModel):
    """A part of a resource: immutable, camelCase outside, no unknown fields, no silent conversions."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    RULES: ClassVar[tuple[Rule, ...]] = ()
    TRANSITIONS: ClassVar[tuple[TransitionRule, ...]] = ()

    @model_validator(mode="after")
    def _obeys_its_rules(self) -> Self:
        for rule in self.RULES:
            if not rule.holds(self):
                raise ValueError(rule.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the rules to the model's schema, as Kubernetes spells them."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        every: list[Rule | TransitionRule] = [*cls.RULES, *cls.TRANSITIONS]
        rules = [_rule_schema(rule) for rule in every]
        if rules:
            schema["x-kubernetes-validations"] = rules
        return schema

    def to_dict(self) -> dict[str, Any]:
        """The object as Kubernetes has it: camelCase, no nulls."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _rule_schema(rule: Rule | TransitionRule) -> dict[str, Any]:
    """A rule as Kubernetes spells it."""
    schema: dict[str, Any] = {
        "rule": rule.expression if isinstance(rule, Rule) else rule.cel,
        "message": rule.message,
    }
    if rule.field:
        schema["fieldPath"] = f".{rule.field}"
    if isinstance(rule, Rule) and rule.stored:
        schema["optionalOldSelf"] = True
    return schema


class StatusModel(ApiModel):
    """A part of a status. Unknown fields are passed over: a newer version may have written them."""

    model_config = ConfigDict(extra="ignore")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Like pydantic's, but `update` is checked as if the model was made of it: a long message is cut here, too."""
        if not update:
            return super().model_copy(deep=deep)
        return type(self).model_validate({name: getattr(self, name) for name in type(self).model_fields} | dict(update))

    def to_status(self) -> dict[str, Any]:
        """The status to write. Fields without a value are left out, so write it completely, not as a merge patch."""
        return self.to_dict()


def _rfc_3339(given: Any) -> Any:
    if isinstance(given, str) and _TIME.fullmatch(given) is None:
        raise ValueError("write a time with its zone, such as 2026-11-20T10:00:00Z or 2026-11-20T11:00:00+01:00")
    return given


Time = Annotated[
    AwareDatetime,
    Field(
        strict=False, json_schema_extra={"maxLength": 35}
    ),  # behind a validator, a text counts as Python's, not JSON's
    BeforeValidator(_rfc_3339),
]
"""A point in time that a person writes; the same texts that the API server takes."""


def _each_once(given: tuple[str, ...]) -> tuple[str, ...]:
    for one in given:
        if given.count(one) > 1:
            raise ValueError(f"{one} stands there more than once; write it once")
    return given


EachOnce = AfterValidator(_each_once)
"""For a list whose entries must differ; goes with ``LIST_SET``."""
LIST_SET = {"x-kubernetes-list-type": "set"}

Moment = Annotated[AwareDatetime, PlainSerializer(moment_text, return_type=str, when_used="json")]
"""A point in time; in a status without fractions of a second in UTC."""


def _cut(text: Any) -> Any:
    return text[: LONGEST_MESSAGE - 1] + "…" if isinstance(text, str) and len(text) > LONGEST_MESSAGE else text


Message = Annotated[
    str,
    BeforeValidator(_cut),
    Field(max_length=LONGEST_MESSAGE),
]
"""A sentence in a status; cut when it is too long."""

_Model = TypeVar("_Model", bound=ApiModel)


def parsed(model: type[_Model], given: Any, *, owner: str, path: str) -> _Model:
    """Read `given`, which is JSON or YAML, as `model`.

    Args:
        model: what it should be.
        given: plain values; lists for tuples, texts for times.
        owner: whose it is, for the message, such as ``Resend night/repeat-1``.
        path: where in the owner it stands, such as ``spec``.

    Raises:
        ConfigurationError: it is not; the sentence names the field and says what to do.
    """
    try:
        # By way of JSON, because only there strictness still takes a list for a tuple and a text for a time.
        return model.model_validate_json(json.dumps(given, default=_plain))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = path + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise ConfigurationError(f"{owner} cannot be used: {where}: {_in_words(first)}.") from None


def _plain(given: Any) -> Any:
    if isinstance(given, Mapping):  # views that frameworks hand out
        return dict(given)
    if isinstance(given, datetime | date):  # what YAML makes of an unquoted time
        return given.isoformat()
    raise TypeError(type(given).__name__)


_SUBJECT = re.compile(r"^(Input|String|Value|Tuple|List|Dictionary) (?=should)")
"""The subject of pydantic's messages, which ours replace with the value itself."""
_WORDS = {
    "missing": "the field is missing; add it",
    "extra_forbidden": "there is no such field; delete it or correct its name (see kubectl explain)",
}


def _in_words(error: ErrorDetails) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    sentence = _WORDS.get(error["type"])
    if sentence is None:
        given = json.dumps(error["input"], default=str, ensure_ascii=False)
        shown = given if len(given) <= 60 else given[:59] + "…"
        problem = _SUBJECT.sub("", error["msg"]).rstrip(".")
        sentence = f"{shown} {problem[0].lower()}{problem[1:]}; correct it"
    return sentence
