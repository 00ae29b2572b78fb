"""Properties, JAAS configurations and values are read as Kafka's own readers read them, or refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fuzz.java_settings import compare
from gapless_api.base.errors import ConfigurationError
from gapless_mirror.settings.client_properties import seconds_of_milliseconds, unless_negative
from gapless_mirror.settings.config_types import boolean, integer, trimmed, words
from gapless_mirror.settings.java_properties import read_java_properties


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_kafka_reads_fuzzed_settings_in_the_same_way() -> None:
    assert compare(20_000, 0, seed=1) == 20_000


def read(tmp_path: Path, content: bytes) -> dict[str, str]:
    file = tmp_path / "mirror.properties"
    file.write_bytes(content)
    return {key: each.value for key, each in read_java_properties(file).items()}


def test_a_file_is_latin_1_and_values_are_trimmed_as_in_java(tmp_path: Path) -> None:
    text = b"# \xe9\na = \\u0020b\\u0000 \nname=\xe9\xa0\nsmile=\\uD83D\\uDE00\n"
    assert read(tmp_path, text) == {"a": "b", "name": "\xe9\xa0", "smile": "\U0001f600"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            "name=é\n".encode(),
            r"has characters in UTF-8, which Kafka's programs read as Latin-1; write them as \u escapes",
        ),
        (b"a=b\nc=\\u12\n", r"has a \u without four hexadecimal digits, which Java refuses; write \\ for a backslash"),
        (b"c=\\uD83D\n", r"has a \u escape of half a character; write both halves"),
        (
            b"\xef\xbb\xbfa=b\n",
            "begins with a byte order mark, which Kafka's programs read as a part of the first name",
        ),
    ],
)
def test_what_kafka_reads_in_an_unexpected_way_is_refused_with_the_line(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"mirror\.properties") as refused:
        read(tmp_path, content)
    assert sentence in str(refused.value)
    assert ("line 2" in str(refused.value)) == content.startswith(b"a=b")


def test_comments_may_be_in_any_encoding(tmp_path: Path) -> None:
    assert read(tmp_path, "# é ü\na=b\n".encode()) == {"a": "b"}


@pytest.mark.parametrize("text", ["1_000", "\u0663", "0x1", "1.0", "", "2147483648", "1 0", "--1", "9" * 2_000])
def test_an_integer_of_python_that_is_none_of_kafka_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an integer of 32 bits"):
        integer(text)


def test_values_are_those_of_config_def() -> None:
    assert (integer(" +007 "), integer("9223372036854775807", bits=64)) == (7, 2**63 - 1)
    assert [boolean(text) for text in (" TRUE", "False\t")] == [True, False]
    for text in ("yes", "1", "", "\xa0true"):
        with pytest.raises(ValueError, match="true or false"):
            boolean(text)
    assert (words(" a, b ,,c "), words(" ")) == (["a", "b", "", "c"], [])
    assert trimmed("\x00\x1f a\xa0 ") == "a\xa0"
    assert (unless_negative("-1"), unless_negative(" 60")) == ("", "60")
    assert seconds_of_milliseconds("1500") == "1.5"
    with pytest.raises(ValueError, match="milliseconds"):
        seconds_of_milliseconds("1_500")
