"""The proof that topic expressions mean what they mean in Java, or are refused with the position."""

from __future__ import annotations

import re
import shutil

import pytest

from fuzz.java_patterns import compare
from gapless_api.base.quantities import regular_expression
from gapless_kafka.topics.topic_choice import TopicChoice
from gapless_mirror.settings.client_properties import pattern_of_whitelist, pattern_without
from gapless_mirror.settings.java_patterns import python_pattern


@pytest.mark.parametrize(
    ("expression", "matching", "others"),
    [
        ("[a-z&&[^b]]+", "acd", "abd"),
        ("[a[c]]", "c", "b"),
        ("a++b", "aab", "aa"),
        (".*+b", "", "ab"),
        (r"\Qa.b\E*", "a.bbb", "a.ba.b"),
        ("(?i)Orders-[x-z]", "oRDERS-Y", "orders-w"),
        ("a(?i)b|c", "C", "Ab"),
        (r"\p{Alpha}+\p{Digit}", "ab1", "a-1"),
        (r"\w+", "a_1", "ä"),
        ("(?<name>a)|b$", "b", "c"),
        ("[^a-c[x]]", "d", "x"),
    ],
)
def test_an_expression_means_what_it_means_in_java(expression: str, matching: str, others: str) -> None:
    pattern = re.compile(python_pattern(expression))
    assert not matching or pattern.fullmatch(matching)
    assert not pattern.fullmatch(others)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (r"(a)\1", r"backreference, \1, which takes too long (character 5"),
        ("a{2|3}", "has a { that begins no repetition such as {2,5} (character 4, at '|3}')"),
        ("a{99999999999999999999}", "has a repetition that Java does not allow"),
        ("[a&&]", "has a && without a class on both sides (character 3"),
        ("(a", "has a ( without ) (character 3, at its end)"),
        ("a)b", "has a ) without ( (character 2, at ')b')"),
        ("*.log", "has a quantifier without an expression before it (character 1, at '*.log')"),
        (r"\R", r"has the escape \R"),
        ("(?x)a b", "has the flag or group 'x'"),
        ("(?<=a+)b", "look-behind"),
        ("(?<=(?:a|b){2})c", "repeats a group in a look-behind"),
        ("(?<!(a(?:b|c)){1}d)e", "repeats a group in a look-behind"),
        ("(?<!(?:a(?!0)+){2})e", "has a look-behind without a fixed length"),
        ("(?<=(?!0){2,}a)e", "has a look-behind without a fixed length"),
        (r"(?<=(?:\Z{0,2}){2}a)e", "has a look-behind without a fixed length"),
        (r"(?<=\Z*a)e", "has a look-behind without a fixed length"),
        ("(" * 60, "in more than 50 levels"),
        ("a" * 20_001, "20,001 characters"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_its_position(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        python_pattern(expression)


def test_a_class_of_unicode_is_refused_for_names_with_any_characters() -> None:
    assert python_pattern(r"\p{L}") == "[A-Za-z]"
    with pytest.raises(ValueError, match=r"the class \\p\{L\}"):
        python_pattern(r"\p{L}", ascii_names=False)


def test_a_whitelist_of_the_old_mirror_is_read_as_its_topic_filter_reads_it() -> None:
    pattern = re.compile(pattern_of_whitelist(' "a | b, c[d-f&&[^e]]" '))
    assert [name for name in ("a", "b", "cd", "ce", "a ") if pattern.fullmatch(name)] == ["a", "b", "cd"]
    assert not re.fullmatch(pattern_without("a | b"), "b")
    with pytest.raises(ValueError, match="an expression of Java that can be translated; it has a \\{"):
        pattern_of_whitelist("a{2,3}")  # the comma becomes |, as there


@pytest.mark.parametrize("text", ["(a+)+", "(a|aa)*", "(a*)*", r"(\w+\d*)+x", "(x+x+)+y", "(a{1,3})*b"])
def test_an_expression_that_takes_exponential_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="exponential time"):
        regular_expression(text)


@pytest.mark.parametrize("text", ["([a-z]+[.-])*[a-z]+", "(ab|cd)*", ".*a.*b", "(?:a++b)*", "([a-z]{1,3}){1,5}"])
def test_repetitions_that_read_a_name_in_one_way_are_accepted(text: str) -> None:
    assert regular_expression(text).pattern == text


def test_a_rule_that_selects_nothing_is_named() -> None:
    choice = TopicChoice(prefixes=("log-", "x-"), pattern=re.compile("a | b"), excluded=(re.compile("x-1"),))
    found = choice.unmatched({"a", "log-1", "x-1", "__x"})
    assert [sentence.split(";")[0] for sentence in found] == [
        "No topic of the source matches topicPrefix=x-",
        "No topic of the source matches topicPattern=a | b",
    ]
    assert choice.unmatched({"log-1", "x-2", "a "}) == []


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_java_reads_fuzzed_expressions_in_the_same_way() -> None:
    assert compare(20_000, 0, seed=1) == 20_000
