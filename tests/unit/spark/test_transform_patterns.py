"""The checks of which patterns take linear time."""

from __future__ import annotations

import pytest

from gapless_spark.mirror.transform_functions import FUNCTIONS, Growth
from gapless_spark.mirror.transform_patterns import check_like, pattern_width


@pytest.mark.parametrize(
    ("pattern", "width"),
    [
        ("[0-9]{16}", 16),
        ("card=[0-9]+", 6),
        ("id=([0-9]+)", 4),
        ("^user-.*-x$", 7),
        ("(?i)error|warning", 5),
        (r"\[[0-9]{4}\]", 6),
        (r"\d{4}-\d{2}", 7),
        (r"[a-z]{1,64}@[a-z0-9.]+", 3),
        ("", 0),
        (".*", 0),
    ],
)
def test_patterns_that_take_linear_time_have_a_width(pattern: str, width: int) -> None:
    assert pattern_width(pattern) == width


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+$", "(a|a)*b", "(a*)*", "(a|b)+", "([a-z]+)*x", ".*.*x", "a*b", "[0-9]+$", "^a*b*c", "(a{1,9}){1,9}b"),
        *(
            "(ab|a|b){1,100}c",
            "[a-z]{1,1000}x",
            "a{1001}",
            "(a{1000}){1000}",
            r"(.)\1",
            "(?=a)b",
            "(?<=a)b",
            "(?>a)",
            "a++b",
        ),
        *("(?x)a", "(?s).", "(?P<n>a)", "[a[b]]", "[a&&b]", r"\Q*\E", r"\p{L}", "(", "[", "a{2,1}", "[]a]", "x" * 257),
        *("a++b", "(a|a){1,30}c", "(a|a)" * 30 + "c", "(?:a|b)+", "(?:ab)*", "(?:a|a){30}c"),
        *("(a+|b)", "(?:a+){2}", "(a*b){3}", "^(a|b+)*"),
    ],
)
def test_patterns_that_can_take_long_or_differ_between_languages_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        pattern_width(pattern)


def test_like_has_one_wildcard_or_one_at_both_ends() -> None:
    for pattern in ("a", "%", "%%", "a%", "%a", "%a%", "a%b", "a_b"):
        check_like(pattern)
    for pattern in ("%a%b", "a%b%c", "%a%b%", "%%%"):
        with pytest.raises(ValueError, match="several places"):
            check_like(pattern)


def test_the_list_has_no_function_that_reads_anything_but_its_arguments() -> None:
    """Names that must never be listed, whatever else is added."""
    unsafe = (
        "reflect java_method try_reflect repeat sequence space array_repeat rand randn uuid now xpath "
        "current_timestamp from_xml input_file_name explode count aggregate reduce version raise_error aes_decrypt"
    )
    assert not set(unsafe.split()) & set(FUNCTIONS)
    for name, function in FUNCTIONS.items():
        assert name == name.lower()
        assert function.regex is None or function.regex in function.constants, name
        assert (function.growth is Growth.MAPPED) <= function.takes_lambda, name
        assert function.growth is not Growth.REPLACED or 2 in function.constants, name
