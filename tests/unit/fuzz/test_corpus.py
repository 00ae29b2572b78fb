"""The proof that every input of the corpus comes to what its name says: accepted, or refused as documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.target import CORPUS, Target, expected_outcome
from fuzz.targets import TARGETS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_every_input_comes_to_what_its_name_says(target: Target) -> None:
    inputs = target.inputs()
    assert {expected_outcome(file).value for file in inputs} >= {"accepted"}, "a target that refuses all tests little"
    wrong = {}
    for file in inputs:
        try:
            found = str(target.outcome(file.read_bytes()))
        except BaseException as error:  # noqa: BLE001 -- a panic of an extension is none of Exception, and as bad
            found = f"{type(error).__name__}: {str(error)[:200]}"
        if found != expected_outcome(file):
            wrong[file.name] = found
    assert wrong == {}


def test_the_corpus_stays_small_and_has_no_folder_without_a_target() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)
    assert sum(file.stat().st_size for file in CORPUS.rglob("*")) < 1_000_000


def test_the_page_about_fuzzing_names_every_target() -> None:
    page = (ROOT / "docs" / "development" / "fuzzing.md").read_text(encoding="utf-8")
    assert [name for name in TARGETS if f"`{name}`" not in page] == []


def test_a_defect_is_no_refusal() -> None:
    def broken(content: bytes) -> None:
        raise KeyError(content)

    with pytest.raises(KeyError):
        Target("broken", broken, (ValueError,)).outcome(b"")
