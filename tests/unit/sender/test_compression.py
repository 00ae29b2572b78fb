"""The behaviour of gzip bodies."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_sender.wire.compression import gzip_bodies, gzip_body


@given(st.binary(min_size=1, max_size=5000) | st.integers(1, 300_000).map(lambda length: b"log line " * length))
def test_any_value_comes_back_through_another_gzip(value: bytes) -> None:
    assert gzip.decompress(gzip_body(value)) == value


@given(st.binary(min_size=1, max_size=3000))
def test_the_header_names_no_time_no_level_and_no_system(value: bytes) -> None:
    assert gzip_body(value)[:10].hex() == "1f8b08000000000000ff"


def test_the_same_value_gives_the_same_bytes() -> None:
    assert gzip_body(b"some text" * 99) == gzip_body(b"some text" * 99)


def test_an_empty_value_is_refused_because_the_receiver_would_drop_it() -> None:
    with pytest.raises(ValueError, match="never compressed"):
        gzip_body(b"")


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 2000])
def test_many_are_compressed_like_one_and_in_order(count: int) -> None:
    values = [b"%d " % number * 50 for number in range(count)]
    assert [gzip.decompress(body) for body in gzip_bodies(values)] == values


def test_an_empty_body_among_many_is_refused() -> None:
    for place in (0, 199):
        values = [b"x"] * 200
        values[place] = b""
        with pytest.raises(ValueError, match="never compressed"):
            gzip_bodies(values)
