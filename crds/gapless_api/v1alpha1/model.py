"""What all models of the API have in common: strictness, validation rules in CEL and Python, error messages.

Must not know any kind. A model is the only source of its part of the CRD: attribute docstrings become the descriptions
that ``kubectl explain`` shows, bounds become schema, and a `Rule` states the same constraint in CEL (for the API
server) and in Python (for the operator).
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
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
MAX_MESSAGE_LENGTH = 4096
"""Characters of a message in a status. Longer messages are truncated, because the API server would reject the
status."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A constraint between the fields of one object."""

    cel: str
    """For the API server; ``self`` is the object."""
    message: str
    """What is wrong and what to write instead, without a final period."""
    holds: Callable[[Any], bool]
    """The same constraint on the model."""
    field: str = ""
    """The field that the error names, in camelCase; empty for the object itself."""


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """A constraint between the old and the new object of an update. Only the API server can check it."""

    cel: str
    message: str
    field: str = ""


class ApiModel(BaseModel):
    """A part of a resource: immutable, camelCase in JSON, no unknown fields, no implicit conversions."""

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
    def _check_rules(self) -> Self:
        for rule in self.RULES:
            if not rule.holds(self):
                raise ValueError(rule.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the rules to the model's schema as x-kubernetes-validations."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        constraints: list[Rule | TransitionRule] = [*cls.RULES, *cls.TRANSITIONS]
        rules = [_rule_schema(constraint) for constraint in constraints]
        if rules:
            schema["x-kubernetes-validations"] = rules
        return schema

    def to_dict(self) -> dict[str, Any]:
        """Return the object as Kubernetes JSON: camelCase, no nulls."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _rule_schema(rule: Rule | TransitionRule) -> dict[str, Any]:
    """Return an entry of x-kubernetes-validations."""
    schema: dict[str, Any] = {"rule": rule.cel, "message": rule.message}
    if rule.field:
        schema["fieldPath"] = f".{rule.field}"
    return schema


def immutable_field_rules(
    model: type[ApiModel], mutable_fields: Collection[str], message: str
) -> tuple[TransitionRule, ...]:
    """Return a rule for each field of `model` outside of `mutable_fields`; ``{}`` in `message` becomes the field."""
    rules = []
    for name, field in model.model_fields.items():
        if name in mutable_fields:
            continue
        alias = str(field.alias)
        cel = f"self.{alias} == oldSelf.{alias}"
        if not field.is_required() and field.get_default() in (None, ()):
            cel = f"has(self.{alias}) == has(oldSelf.{alias}) && (!has(self.{alias}) || {cel})"
        rules.append(TransitionRule(cel, message.format(alias), alias))
    return tuple(rules)


class StatusModel(ApiModel):
    """A part of a status. Unknown fields are ignored: a newer version may have written them."""

    model_config = ConfigDict(extra="ignore")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Like pydantic's, but validates `update`, so that long messages are truncated here, too."""
        if not update:
            return super().model_copy(deep=deep)
        return type(self).model_validate({name: getattr(self, name) for name in type(self).model_fields} | dict(update))

    def to_status(self) -> dict[str, Any]:
        """Return the status to write. Fields without a value are omitted: replace the status, do not merge it."""
        return self.to_dict()


def _rfc_3339(given: Any) -> Any:
    if isinstance(given, str) and _TIME.fullmatch(given) is None:
        raise ValueError("write a time with its zone, such as 2026-11-20T10:00:00Z or 2026-11-20T11:00:00+01:00")
    return given


Time = Annotated[
    AwareDatetime,
    Field(
        strict=False, json_schema_extra={"maxLength": 35}
    ),  # after a BeforeValidator, pydantic treats a string as Python input, not JSON
    BeforeValidator(_rfc_3339),
]
"""A point in time in a spec, as RFC 3339 text like the API server's date-time."""


def _check_unique(items: tuple[str, ...]) -> tuple[str, ...]:
    for item in items:
        if items.count(item) > 1:
            raise ValueError(f"{item} is listed more than once; list it once")
    return items


UniqueItems = AfterValidator(_check_unique)
"""For a list without duplicates; use it together with ``LIST_SET``."""
LIST_SET = {"x-kubernetes-list-type": "set"}

Moment = Annotated[AwareDatetime, PlainSerializer(moment_text, return_type=str, when_used="json")]
"""A point in time in a status: UTC, written in whole seconds."""


def _truncate(text: Any) -> Any:
    return text[: MAX_MESSAGE_LENGTH - 1] + "…" if isinstance(text, str) and len(text) > MAX_MESSAGE_LENGTH else text


Message = Annotated[
    str,
    BeforeValidator(_truncate),
    Field(max_length=MAX_MESSAGE_LENGTH),
]
"""A sentence in a status, truncated when it is too long."""

_Model = TypeVar("_Model", bound=ApiModel)


def parse(model: type[_Model], given: Any, *, owner: str, path: str) -> _Model:
    """Parse `given`, plain JSON or YAML values, as `model`.

    Args:
        model: the type to parse as.
        given: plain values: lists for tuples, strings for times.
        owner: the object, for the error message, such as ``Resend night/repeat-1``.
        path: the field of the owner, such as ``spec``.

    Raises:
        ConfigurationError: `given` is invalid; the message names the field and says what to do.
    """
    try:
        # Through JSON, because only there does strict mode accept a list for a tuple and a string for a time.
        return model.model_validate_json(json.dumps(given, default=_to_plain))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = path + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise ConfigurationError(f"{owner} cannot be used: {where}: {_describe(first)}.") from None
    except Exception as error:  # whatever fails: what cannot be read must not run, and cannot be suspended otherwise
        raise ConfigurationError(
            f"{owner} cannot be used: {path} cannot be read ({type(error).__name__}: {error}); correct it."
        ) from error


def _to_plain(given: Any) -> Any:
    if isinstance(given, Mapping):  # such as the views that Kopf passes to handlers
        return dict(given)
    if isinstance(given, datetime | date):  # what YAML makes of an unquoted time
        return given.isoformat()
    raise TypeError(type(given).__name__)


_SUBJECT = re.compile(r"^(Input|String|Value|Tuple|List|Dictionary) (?=should)")
"""The subject of a pydantic message, which is replaced with the value."""
_WORDS = {
    "missing": "the field is missing; add it",
    "extra_forbidden": "there is no such field; delete it or correct its name (see kubectl explain)",
}


def _describe(error: ErrorDetails) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    sentence = _WORDS.get(error["type"])
    if sentence is None:
        given = json.dumps(error["input"], default=str, ensure_ascii=False)
        shown = given if len(given) <= 60 else given[:59] + "…"
        problem = _SUBJECT.sub("", error["msg"]).rstrip(".")
        sentence = f"{shown} {problem[0].lower()}{problem[1:]}; correct it"
    return sentence
