"""The behaviour of filter rules."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.sender_targets import check_decisions
from gapless_api.base.errors import ConfigurationError
from gapless_sender.replay.input_filter import InputFilter
from kit.machine.examples import examples


def test_the_first_rule_that_finds_something_decides() -> None:
    rules = InputFilter.parse("allow:secret santa,deny:secret,deny:^debug")
    assert rules.denied([b"a secret", b"a secret santa", b"debug 1", b"no debug", b""]) == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_a_value_that_no_rule_knows_has_the_default_action() -> None:
    assert InputFilter.parse("allow:^ok", "deny").denied([b"ok 1", b"other"]) == [False, True]
    assert InputFilter.parse("deny:^no", "").denied([b"no 1", b"other"]) == [True, False]
    assert InputFilter.parse("deny:^no", " ALLOW ").denied([b"no 1", b"other"]) == [True, False]


@pytest.mark.parametrize("text", ["", "  ", "# nothing here", "\n\n# one\n# two\n"])
def test_without_rules_nothing_is_withheld_even_by_a_default_of_deny(text: str) -> None:
    rules = InputFilter.parse(text, "deny")
    assert rules.passes_everything
    assert rules.denied([b"anything"]) == [False]
    assert not rules.denies(b"anything")


def test_rules_that_can_deny_nothing_are_known_to_pass_everything() -> None:
    assert InputFilter.parse("allow:x,allow:y").passes_everything
    assert not InputFilter.parse("allow:x,allow:y", "deny").passes_everything


def test_commas_inside_a_pattern_stay_in_it() -> None:
    rules = InputFilter.parse(r"deny:\d{1,3}\.\d{1,3}\.\d{1,3}, Allow : [x,y],z , deny:a, b")
    assert [rule.pattern for rule in rules.rules] == [r"\d{1,3}\.\d{1,3}\.\d{1,3}", "[x,y],z", "a, b"]
    assert rules.denied([b"from 10.0.17.3", b"10.0"]) == [True, False]


def test_a_trailing_comma_and_line_breaks_separate_rules_too() -> None:
    rules = InputFilter.parse("deny:a\nallow:b,\n# a comment, with a comma\ndeny:c,")
    assert [(rule.denies, rule.pattern) for rule in rules.rules] == [(True, "a"), (False, "b"), (True, "c")]


def test_a_colon_in_the_pattern_belongs_to_it() -> None:
    assert InputFilter.parse("deny:level: debug").denied([b"level: debug", b"debug"]) == [True, False]


def test_rules_are_searched_for_anywhere_and_anchors_mean_the_whole_value() -> None:
    rules = InputFilter.parse("deny:^b$")
    assert rules.denied([b"b", b"a\nb\nc", b"ab"]) == [True, False, False]
    assert InputFilter.parse("deny:(?m)^b$").denies(b"a\nb\nc")


def test_a_byte_that_is_no_text_does_not_hide_what_stands_beside_it() -> None:
    rules = InputFilter.parse("deny:password.*secret")
    assert rules.denied([b"password=\xffsecret", "password=äsecret".encode(), b"password=\nsecret"]) == [
        True,
        True,
        False,
    ]


def test_characters_are_matched_as_characters() -> None:
    rules = InputFilter.parse("deny:^.{3}$,deny:(?i)größe")
    assert rules.denied(["äöü".encode(), "ä1".encode(), b"\xe4\xf6\xfc", "GRÖSSE GRÖßE".encode()]) == [
        True,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("name", ["rules.txt", "rules"])
def test_rules_come_from_a_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "config").mkdir()
    monkeypatch.chdir(tmp_path)
    for place in (Path(name), Path("config") / "rules", tmp_path / name):
        place.write_text("# first\n\ndeny:a{1,2},b\nallow:c\n")
        assert [rule.pattern for rule in InputFilter.parse(str(place)).rules] == ["a{1,2},b", "c"]


def test_a_file_as_windows_writes_it_is_understood(tmp_path: Path) -> None:
    (tmp_path / "rules").write_bytes(b"\xef\xbb\xbfdeny:a\r\nallow:b\xe2\x80\xa8c\r\n")
    assert [rule.pattern for rule in InputFilter.parse(str(tmp_path / "rules")).rules] == ["a", "b\u2028c"]


def test_an_inline_rule_that_ends_like_a_file_is_inline() -> None:
    assert InputFilter.parse(r"deny:\.txt").denies(b"a.txt")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nothing", "Rule 1 of inputFilterRules is 'nothing'; write it as allow:regex"),
        ("deny:a,dney:b", "Rule 2 of inputFilterRules has the action 'dney'; it must be allow or deny (a comma"),
        ("allow:a\ndrop:b", "Rule 2 of inputFilterRules has the action 'drop'"),
        ("deny:", "no pattern; write deny:.*"),
        ("deny:(", "not a valid RE2 expression (missing ): ()"),
        ("deny:a(?=b)", "not a valid RE2 expression"),
        (r"deny:(a)\1", "not a valid RE2 expression"),
        ("deny:" + "a" * 1001, "1001 characters"),
        ("/nowhere/rules", "No such file"),
        ("config/rules", "cannot be read"),
    ],
)
def test_a_wrong_rule_is_refused_in_one_sentence_with_its_place(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        InputFilter.parse(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_line_of_a_file_is_named_with_its_number(tmp_path: Path) -> None:
    file = tmp_path / "{odd}.txt"
    file.write_text("# comment\ndeny:x\nallow:[\n")
    with pytest.raises(ConfigurationError, match=r"line 3 of .*\{odd\}\.txt is not a valid RE2 expression"):
        InputFilter.parse(str(file))
    file.write_bytes(b"deny:\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        InputFilter.parse(str(file))


def test_a_wrong_default_action_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="inputFilterDefaultAction is 'drop'"):
        InputFilter.parse("deny:x", "drop")


def test_a_pattern_that_makes_others_blow_up_takes_linear_time() -> None:
    rules = InputFilter.parse(r"deny:^(a+)+$,deny:(\w*)*x$")
    began = time.process_time()
    assert not rules.denies(b"a" * 100_000 + b"!")
    assert time.process_time() - began < 5


@given(st.text(max_size=80))
def test_any_text_gives_rules_or_one_clear_error(text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        InputFilter.parse(text).denied([b"", b"some value", b"\xff"])


def test_the_open_source_senders_filter_vector_is_met() -> None:
    vector = json.loads((Path(__file__).parents[1] / "vectors" / "up-filtered-empty-plain.json").read_text())
    rules = InputFilter.parse(vector["settings"]["inputFilterRules"])
    assert rules.denied([bytes.fromhex(given["payload_hex"]) for given in vector["inputs"]]) == [True, False]


GO_125_NAMES = {
    r"\p{ASCII}",
    r"\p{Cn}",
    r"\p{LC}",
    r"\p{Letter}",
    r"\p{Uppercase_Letter}",
    r"\p{ Lu}",
    r"\p{decimal number}",
    r"\p{latin}",
    r"\p{lu}",
    r"\pn",
}
"""PartitionMapping and spellings that Go takes since 1.25 only, and that RE2 refuses."""


def test_every_construct_means_what_it_means_to_go_or_is_refused() -> None:
    vectors = json.loads((Path(__file__).parents[1] / "vectors" / "filter-constructs.json").read_text())
    values = [bytes.fromhex(value) for value in vectors["values"]]
    found = {}
    for pattern in vectors["answers"]:
        try:
            rules = InputFilter.parse(f"deny:{pattern}")
        except ConfigurationError:
            found[pattern] = None
        else:
            found[pattern] = "".join("01"[denied] for denied in rules.denied(values))
    differing = {pattern for pattern, answer in vectors["answers"].items() if found[pattern] != answer}
    assert differing == GO_125_NAMES
    assert not any(found[pattern] for pattern in differing)


@pytest.mark.parametrize("quoted", [r"\Qnothing", r"(?i)\Qnothing", r"(x|\Qnothing\E)\Q", r"\B\Qnothing"])
def test_a_quotation_that_is_not_closed_ends_with_its_rule(quoted: str) -> None:
    rules = InputFilter.parse(f"allow:{quoted}\ndeny:secret\ndeny:pass")
    assert rules.denied([b"a secret", b"a pass", b"other"]) == [True, True, False]


def test_rules_that_are_too_large_together_are_asked_one_by_one() -> None:
    rules = InputFilter.parse(
        "\n".join([*(rf"deny:\PN{{1000}}{number}\pL{{500}}" for number in range(4)), "deny:secret"])
    )
    assert rules._search_all is None
    assert rules.denied([b"a secret", b"other"]) == [True, False]


_PIECES = st.sampled_from(
    [
        *(
            r"\Q",
            r"\E",
            "\\",
            r"\B",
            r"\b",
            r"\C",
            r"\z",
            "a",
            "b",
            "é",
            "(",
            ")",
            "(?i)",
            "(?:",
            "(?P<n>",
            "[",
            "]",
            "[^a]",
        ),
        *(
            "^",
            "$",
            "|",
            "*",
            "+?",
            "{2}",
            "{1000}",
            ".",
            "(?s)",
            "(?m)",
            "-",
            "#",
            "?",
            " ",
            "\x00",
            "\ufffd",
            r"\pL",
            r"\x{ff}",
        ),
    ]
)


@settings(max_examples=examples(400))
@given(
    st.lists(st.tuples(st.booleans(), st.lists(_PIECES, min_size=1, max_size=8)), min_size=1, max_size=5),
    st.booleans(),
    st.lists(st.one_of(st.binary(max_size=12), st.lists(_PIECES, max_size=6).map(lambda p: "".join(p).encode()))),
)
def test_rules_decide_together_as_one_by_one(
    rules: list[tuple[bool, list[str]]],
    denies_by_default: bool,  # noqa: FBT001 -- given by Hypothesis
    values: list[bytes],
) -> None:
    lines = [f"{'deny' if denies else 'allow'}:{''.join(pieces)}" for denies, pieces in rules]
    usable = []
    for line in lines:
        with contextlib.suppress(ConfigurationError):
            InputFilter.parse(line)
            usable.append(line)
    check_decisions("\n".join(usable), "deny" if denies_by_default else "allow", values)
