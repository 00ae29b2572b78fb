from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess

    Gapless = Callable[..., subprocess.CompletedProcess[str]]


def test_disjoint_windows_of_several_files_are_shown_in_order(tmp_path: Path, gapless: Gapless) -> None:
    (tmp_path / "a.yaml").write_text("windows:\n- {cluster: south-east, start: 6, count: 0}\n")
    (tmp_path / "b.json").write_text('{"windows": [{"cluster": "north", "start": 0, "count": 6}]}')
    ended = gapless("windows", "check", tmp_path / "a.yaml", tmp_path / "b.json")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "cluster     downstream partitions\nnorth       0…5\nsouth-east  6…\n"


def test_windows_that_overlap_across_files_end_with_2(tmp_path: Path, gapless: Gapless) -> None:
    (tmp_path / "a.yaml").write_text("windows: [{cluster: south, start: 5, count: 2}]")
    (tmp_path / "b.yaml").write_text("windows: [{cluster: north, start: 0, count: 6}]")
    ended = gapless("windows", "check", tmp_path / "a.yaml", tmp_path / "b.yaml")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "north (0…5) and south (5…6) overlap" in ended.stderr


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"windows: [", "is neither YAML nor JSON"),
        (b"\xff\xfe\x00", "is neither YAML nor JSON"),
        (b"[" * 5000, "is neither YAML nor JSON"),
        (b"", "has no list of windows"),
        (b"- 1", "has no list of windows"),
        (b"windows: []", "has no list of windows"),
        (b"windows: 5", "has no list of windows"),
        (b"windows: [5]", "The entry windows[0] of"),
        (b"windows: [{start: 0, count: 1}]", "has no cluster"),
        (b"windows: [{cluster: n, start: 0}]", "The count of windows[0] of"),
        (b"windows: [{cluster: n, start: '0', count: 1}]", "The start of windows[0] of"),
        (b"windows: [{cluster: n, start: 0, count: true}]", "The count of windows[0] of"),
        (b"windows: [{cluster: n, start: -1, count: 1}]", "is invalid: both must be"),
        (b"windows: [{cluster: n, start: 0, count: 1, stop: 2}]", "The key stop in windows[0] of"),
        (b"windows: [{cluster: n, start: 0, count: 1}]\nmore: 1", "The key more in"),
        (b"windows: [{cluster: n, start: 0, count: 1}, {cluster: n, start: 1, count: 1}]", "already has a window"),
        (b"!!python/object/apply:os.system ['true']", "is neither YAML nor JSON"),
    ],
)
def test_a_wrong_file_is_one_sentence_and_exit_2(
    tmp_path: Path, gapless: Gapless, content: bytes, sentence: str
) -> None:
    (tmp_path / "w").write_bytes(content)
    ended = gapless("windows", "check", tmp_path / "w")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_missing_file_and_no_file_end_with_2(tmp_path: Path, gapless: Gapless) -> None:
    ended = gapless("windows", "check", tmp_path / "none")
    assert (ended.returncode, "cannot be read (No such file" in ended.stderr) == (2, True)
    assert gapless("windows", "check").returncode == 2


LIST = "windows: [{cluster: north, start: 0, count: 6}, {cluster: south, start: 6, count: 6}]\n"
NORTH = "clusterName: north\nroles: {upstream: {enabled: true}}\n"


def test_values_of_the_chart_are_checked_against_a_shared_list(tmp_path: Path, gapless: Gapless) -> None:
    (tmp_path / "windows.yaml").write_text(LIST)
    (tmp_path / "north.yaml").write_text(NORTH + "logLevel: debug\n")
    (tmp_path / "down.yaml").write_text("roles: {downstream: {enabled: true}}\nclusterName: hall\n")
    ended = gapless("windows", "check", *(tmp_path / name for name in ("windows.yaml", "north.yaml", "down.yaml")))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == (f"cluster  downstream partitions\nnorth    0…5  {tmp_path / 'north.yaml'}\nsouth    6…11\n")


def test_values_that_agree_whatever_the_order_of_their_lists_are_right(tmp_path: Path, gapless: Gapless) -> None:
    other_order = "windows: [{cluster: south, start: 6, count: 6}, {cluster: north, start: 0, count: 6}]\n"
    (tmp_path / "north.yaml").write_text(NORTH + LIST)
    (tmp_path / "south.yaml").write_text(NORTH.replace("north", "south") + other_order)
    assert gapless("windows", "check", tmp_path / "north.yaml", tmp_path / "south.yaml").returncode == 0


def test_values_whose_lists_differ_are_named_with_the_difference(tmp_path: Path, gapless: Gapless) -> None:
    (tmp_path / "north.yaml").write_text(NORTH + LIST)
    (tmp_path / "south.yaml").write_text(
        "clusterName: south\nwindows: [{cluster: north, start: 0, count: 4}, {cluster: south, start: 6, count: 6}]\n"
    )
    ended = gapless("windows", "check", tmp_path / "north.yaml", tmp_path / "south.yaml")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"The windows in {tmp_path / 'south.yaml'} and in {tmp_path / 'north.yaml'} differ" in ended.stderr
    assert "north: 0…3 and 0…5" in ended.stderr


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ("clusterName: nroth\n", "The clusterName nroth in"),
        ("roles: {upstream: {enabled: true}}\n", "install a sending cluster without a clusterName"),
        ("clusterName: 7\n", "is not text"),
        ("clusterName: north\nwindows: 5\n", "has no list of windows"),
        ("clusterName: north\nclusterName: south\n", "The key clusterName is duplicated in"),
        ("clusterName: north\n---\nclusterName: south\n", "has 2 YAML documents"),
    ],
)
def test_wrong_values_are_one_sentence_and_exit_2(tmp_path: Path, gapless: Gapless, values: str, sentence: str) -> None:
    (tmp_path / "windows.yaml").write_text(LIST)
    (tmp_path / "values.yaml").write_text(values)
    ended = gapless("windows", "check", tmp_path / "windows.yaml", tmp_path / "values.yaml")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_two_installs_of_one_sending_cluster_are_refused(tmp_path: Path, gapless: Gapless) -> None:
    (tmp_path / "windows.yaml").write_text(LIST)
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(NORTH)
    ended = gapless("windows", "check", tmp_path)
    assert ended.returncode == 2
    assert "both install the sending cluster north" in ended.stderr


def test_values_without_any_list_are_refused(tmp_path: Path, gapless: Gapless) -> None:
    (tmp_path / "north.yaml").write_text(NORTH)
    ended = gapless("windows", "check", tmp_path / "north.yaml")
    assert (ended.returncode, "There is no list of windows in" in ended.stderr) == (2, True)


def test_of_a_folder_only_lists_and_values_count(tmp_path: Path, gapless: Gapless) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "windows.yaml").write_text(LIST)
    (tmp_path / "sub" / "values.yml").write_text(NORTH)
    (tmp_path / "release.yaml").write_text("kind: HelmRelease\nwindows: 5\n---\nkind: Namespace\n")
    (tmp_path / "other.json").write_text("[1]")
    (tmp_path / "notes.txt").write_text("windows: [")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.yaml").write_text("windows: [")
    ended = gapless("windows", "check", tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"north    0…5  {tmp_path / 'sub' / 'values.yml'}" in ended.stdout
