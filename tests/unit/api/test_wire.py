"""Every message is read back as it was written, and anything else is refused by a sentence with both versions."""

from __future__ import annotations

import ast
import copy
import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_api.wire.audit_state import AUDIT_STATE
from gapless_api.wire.copy_report import COPY_REPORT
from gapless_api.wire.form import Form, WireError
from gapless_api.wire.link_profile import LINK_PROFILE
from gapless_api.wire.log_lines import FORMS, read_line
from gapless_api.wire.resend_plan import RESEND_PLAN
from gapless_api.wire.resend_report import FULL_REPORT_HEAD
from gapless_api.wire.result_lines import ResultLinesError, find_result, result_lines
from gapless_api.wire.scan_result import SCAN_RESULT
from kit.machine.examples import examples

ROOT = Path(__file__).parents[3]
LINES = list(FORMS.values())
ALL = [*LINES, RESEND_PLAN, FULL_REPORT_HEAD, SCAN_RESULT, AUDIT_STATE, COPY_REPORT, LINK_PROFILE]
every_form = pytest.mark.parametrize("form", ALL, ids=lambda form: f"{form.title} {form.kind}".strip())


def values_of(kind: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911 -- one for each kind
    """Any value of an annotation."""
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        if kind is int:
            return st.integers(0, notes[0].most)
    if is_dataclass(kind):
        return messages_of(kind)
    if get_origin(kind) in {Union, types.UnionType}:
        return st.one_of(st.none() if inner is type(None) else values_of(inner) for inner in get_args(kind))
    if get_origin(kind) is tuple:
        return st.lists(values_of(get_args(kind)[0]), max_size=2).map(tuple)
    if get_origin(kind) is Mapping:
        return st.dictionaries(st.text(max_size=5), values_of(get_args(kind)[1]), max_size=2)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if kind is Any:
        return st.none() | st.integers() | st.text(max_size=5) | st.lists(st.booleans(), max_size=2)
    if issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    known: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(0, 2**70),
        float: st.floats(0, allow_nan=False, allow_infinity=False),
        str: st.text(max_size=5),
    }
    return known[kind]


def messages_of(model: Any) -> st.SearchStrategy[Any]:
    return st.builds(model, **{field.name: values_of(field.type) for field in fields(model)})


def written(form: Form[Any], message: Any) -> Any:
    return json.loads(form.to_line(message) if form.event else json.dumps(form.to_json(message)))


def places(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a message but what no program reads."""
    inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for name, value in inner:
        yield (*path, name)
        if name != "details":
            yield from places(value, (*path, name))


def at(found: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        found = found[name]
    return found


def refusal(form: Form[Any], found: Any) -> str:
    with pytest.raises(WireError) as refused:
        form.from_json(found)
    assert f"and this program reads version {form.version}" in str(refused.value)
    if form.event and isinstance(found, dict) and found.get("event") == form.event:
        line = read_line(json.dumps(found))
        assert line is not None
        assert (line.message, line.problem) == (None, str(refused.value))
    return str(refused.value)


@every_form
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_what_is_written_is_read(form: Form[Any], data: st.DataObject) -> None:
    message = data.draw(messages_of(form.model))
    found = written(form, message)
    assert form.from_json(found) == message
    assert found[form.marker] == form.version
    if form.event:
        line = read_line(form.to_line(message))
        assert line is not None
        assert (line.event, line.message, line.problem) == (form.event, message, "")


def example(kind: Any) -> Any:
    """A value of an annotation in which nothing is empty or absent."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if is_dataclass(kind):
        return kind(**{field.name: example(field.type) for field in fields(kind)})
    inner = [each for each in get_args(kind) if each is not type(None)]
    if get_origin(kind) in {Union, types.UnionType}:
        return example(inner[0])
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if get_origin(kind) is tuple:
        return (example(inner[0]),) * 2
    if get_origin(kind) is Mapping:
        return {"name": example(inner[1])}
    known: dict[Any, Any] = {Any: 5, bool: True, int: 7, float: 2.5, str: "text"}
    return known[kind] if kind in known else next(iter(kind))


@every_form
@pytest.mark.parametrize("version", [0, 99, -2, "2", "1", True, None, 2.0, [2], {}])
def test_another_version_is_refused_by_both(form: Form[Any], version: Any) -> None:
    found = written(form, example(form.model))
    said = refusal(form, {**found, form.marker: version})
    shown = {list: "a list", dict: "an object"}.get(type(version), json.dumps(version))
    assert (f"no version ({form.marker})" if version is None else f"version {shown},") in said
    del found[form.marker]
    assert f"no version ({form.marker})" in refusal(form, found)


@every_form
@pytest.mark.parametrize("step", [-1, 1])
def test_the_versions_beside_are_refused_too(form: Form[Any], step: int) -> None:
    other = form.version + step
    assert f"version {other}," in refusal(form, {**written(form, example(form.model)), form.marker: other})


@every_form
def test_a_member_that_is_missing_or_of_another_type_or_unknown_is_refused_by_name(form: Form[Any]) -> None:
    found = written(form, example(form.model))
    assert form.from_json(found) == example(form.model)
    for path in list(places(found)):
        if path[0] in {form.marker, "event"}:
            continue
        spoilt = copy.deepcopy(found)
        owner, name = at(spoilt, path[:-1]), path[-1]
        value = owner[name]
        for other in (True, -1, "", 1.5, -0.5, [[[]]], [{"": 0}], 10**400):
            if fits(value, other, path):
                continue
            owner[name] = other
            assert str(name) in refusal(form, spoilt)
        if not isinstance(owner, dict) or is_open(path[:-1]):
            continue
        del owner[name]
        said = refusal(form, spoilt)
        assert path[0] == "form" or f"{name} is missing" in said
        owner[name] = value
        owner["unheardOf"] = 1
        assert '"unheardOf" is unknown' in refusal(form, spoilt)


def is_open(path: tuple[Any, ...]) -> bool:
    """Whether any names may stand there."""
    return bool(path) and path[-1] in {"unavailable", "details"} and len(path) == 1


def fits(value: Any, other: Any, path: tuple[Any, ...]) -> bool:
    """Whether `other` may stand where `value` is: of the same type, or where null says nothing of the type."""
    if path[-1] == "details" or (value is None and not isinstance(other, list) and other != {}):
        return True
    if isinstance(value, bool) or isinstance(other, bool):
        return type(value) is type(other)
    if isinstance(value, float) and type(other) in {int, float}:
        return bool(0 <= other < 2**63)
    if isinstance(value, int) and type(other) is int:
        return other >= 0
    if isinstance(value, str) and isinstance(other, str):
        return path[0] not in {"outcome", "form", "read_by"} or value == "text"
    return False


@pytest.mark.parametrize("found", [None, 5, "x", [], {}, [{}], {"event": "progress"}])
@every_form
def test_what_is_no_message_at_all_is_refused(form: Form[Any], found: Any) -> None:
    assert f"no version ({form.marker})" in refusal(form, found)


@pytest.mark.parametrize("line", ["", "x", "[1]", "{", '{"event":5}', '{"event":"run"}', "{}", "[" * 100_000])
def test_a_line_of_others_is_passed_over(line: str) -> None:
    assert read_line(line) is None


def test_a_result_with_a_spoilt_report_is_refused() -> None:
    report = example(SCAN_RESULT.model)
    (line,) = result_lines(report, None)
    assert find_result([line]).report == report
    entry = json.loads(line)
    for name in entry["report"]:
        spoilt = {**entry, "report": {key: value for key, value in entry["report"].items() if key != name}}
        with pytest.raises(ResultLinesError, match="this program reads version 3"):
            find_result([json.dumps(spoilt)])


def test_nobody_else_knows_how_a_message_is_spelt() -> None:
    """Messages are made and read in `gapless_api.wire` only: elsewhere no marker of a version, no name of an event."""
    spelt = {form.marker for form in ALL} | {"bundle_gzip_base64"}
    events = {form.event for form in LINES} | {"result"}
    offenders = []
    for folder in ("crds", "kafka", "archive", "sender", "spark", "operator"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "wire" in path.parts:
                continue
            text = path.read_text(encoding="utf-8")
            if not any(f'"{word}"' in text for word in spelt | events):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and node.value in spelt:
                    offenders.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.value}")
                if isinstance(node, ast.Dict):
                    named = {
                        key.value: value
                        for key, value in zip(node.keys, node.values, strict=True)
                        if isinstance(key, ast.Constant)
                    }
                    event = named.get("event")
                    if isinstance(event, ast.Constant) and event.value in events:
                        offenders.append(f"{path.relative_to(ROOT)}:{node.lineno} event {event.value}")
    assert offenders == []
