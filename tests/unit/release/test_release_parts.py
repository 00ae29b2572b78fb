"""A release is made from a commit alone, is the same each time, and says what it is."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from release.images import IMAGES, archives_by_name, machines_of, pack_offline
from release.kubernetes import join_definitions, pack_chart
from release.listing import PROVENANCE, SIGNATURE, SUMS, describe, digest_of, sign, state_provenance, write_sums
from release.manual import manual_page
from release.materials import collect_licences
from release.packages import Target
from release.program import repack
from release.sources import PARTS, UNKNOWN, Sources, export
from release.steps import ReleaseError

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A commit of what a release is made from, and a change that is not committed."""
    folder = tmp_path_factory.mktemp("repository")
    for part in PARTS:
        (folder / part).mkdir()
        (folder / part / "pyproject.toml").write_bytes((ROOT / part / "pyproject.toml").read_bytes())
    for tree in ("charts/gapless", "crds/manifests", "examples/systemd"):
        for file in (ROOT / tree).rglob("*"):
            if file.is_file():
                copy = folder / file.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())
    identity = ("-c", "user.name=a", "-c", "user.email=a@example", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "a", "--date=2026-01-02T03:04:05Z")):
        subprocess.run(["git", "-C", folder, *identity, *command], check=True)
    (folder / "crds" / "not-committed.txt").write_text("a")
    return folder


@pytest.fixture
def sources(repository: Path, tmp_path: Path) -> Sources:
    return export(repository, tmp_path / "sources", "1.2.3rc4")


def test_each_part_has_the_version_of_the_release_and_nothing_that_is_not_committed(sources: Sources) -> None:
    for part in PARTS:
        project = tomllib.loads((sources.folder / part / "pyproject.toml").read_text())["project"]
        assert project["version"] == "1.2.3rc4", part
    needs = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    ours = [need for need in needs if need.startswith("gapless-")]
    assert len(ours) >= 9
    assert all(need.endswith("==1.2.3rc4") for need in ours), ours
    chart = yaml.safe_load((sources.folder / "charts" / "gapless" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == ("1.2.3-rc4", "1.2.3rc4")
    assert not list(sources.folder.rglob("not-committed.txt"))
    spark = tomllib.loads((sources.folder / "spark" / "pyproject.toml").read_text())["project"]
    assert "pyspark==4.3.0" in spark["optional-dependencies"]["spark"], "versions of others stay"


def test_without_a_history_the_files_are_taken_as_they_are(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = tmp_path / "unpacked"
    shutil.copytree(repository, unpacked, ignore=shutil.ignore_patterns(".git"))
    (unpacked / "release").mkdir()
    (unpacked / "crds" / "__pycache__").mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    found = export(unpacked, tmp_path / "sources", "1.2.3")
    assert (found.commit, found.time) == ("unknown", 1_700_000_000)
    assert (found.folder / "crds" / "not-committed.txt").exists()
    assert (found.folder / "examples" / "systemd" / "README.md").exists()
    assert not (found.folder / "crds" / "__pycache__").exists()
    assert 'version = "1.2.3"' in (found.folder / "gapless" / "pyproject.toml").read_text()


@pytest.mark.parametrize("version", ["", "1.2", "v1.2.3", "1.2.3.4", "1.2.3-rc1", "1.2.3; rm"])
def test_what_is_no_version_is_refused(repository: Path, tmp_path: Path, version: str) -> None:
    with pytest.raises(ReleaseError, match="is not a version"):
        export(repository, tmp_path / "sources", version)
    assert not (tmp_path / "sources").exists()


def test_chart_and_definitions_are_the_same_each_time(sources: Sources, tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        pack_chart(sources, tmp_path / name)
        join_definitions(sources, tmp_path / name)
        for file in sources.folder.rglob("*"):
            file.touch()  # the time of a file in the working folder is not that of the commit
        contents.append({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1]
    with tarfile.open(fileobj=io.BytesIO(contents[0]["gapless-chart-1.2.3-rc4.tgz"])) as chart:
        assert {"gapless/Chart.yaml", "gapless/templates/deployment.yaml"} <= set(chart.getnames())
    definitions = list(yaml.safe_load_all(contents[0]["gapless-crds.yaml"]))
    assert len(definitions) == 8
    assert {each["kind"] for each in definitions} == {"CustomResourceDefinition"}


def test_the_program_is_packed_in_the_same_way_and_can_be_read(tmp_path: Path) -> None:
    content = b"the same words again and again\n" * 1000
    for number, order in enumerate((["__main__.py", "site-packages/a.py"], ["site-packages/a.py", "__main__.py"])):
        with zipfile.ZipFile(tmp_path / f"{number}.zip", "w") as archive:
            for name in order:
                archive.writestr(zipfile.ZipInfo(name, (2000 + number, 1, 1, 0, 0, 0)), content)
        repack(tmp_path / f"{number}.zip", tmp_path / f"{number}.pyz", b"#!/usr/bin/env python3.11\n")
    packed = (tmp_path / "0.pyz").read_bytes()
    assert packed == (tmp_path / "1.pyz").read_bytes()
    assert packed.startswith(b"#!/usr/bin/env python3.11\n")
    assert (tmp_path / "0.pyz").stat().st_mode & 0o111 == 0o111
    with zipfile.ZipFile(tmp_path / "0.pyz") as archive:
        kinds = {entry.filename: entry.compress_type for entry in archive.infolist()}
        assert kinds == {"__main__.py": zipfile.ZIP_DEFLATED, "site-packages/a.py": zipfile.ZIP_LZMA}
        assert {archive.read(name) for name in kinds} == {content}


def test_digests_are_as_sha256sum_reads_them_and_a_signature_is_of_them(
    tmp_path: Path, run_as: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    folder, key = tmp_path / "release", tmp_path / "key.pem"
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels" / "a.whl").write_bytes(b"a")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    sign(folder, key)
    assert hashlib.sha256(b"a").hexdigest() + "  wheels/a.whl\n" in (folder / SUMS).read_text()
    check = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "release.pub", "-rawin"]
    signed = [*check, "-in", SUMS, "-sigfile", SIGNATURE]
    assert run_as(["sha256sum", "--strict", "-c", SUMS], folder).returncode == 0
    assert run_as(signed, folder).returncode == 0
    (folder / "wheels" / "a.whl").write_bytes(b"b")
    assert run_as(["sha256sum", "--strict", "-c", SUMS], folder).returncode == 1
    write_sums(folder)
    assert run_as(signed, folder).returncode == 1
    with pytest.raises(ReleaseError, match=r"KEY=.* is not a file: make one with openssl genpkey"):
        sign(folder, tmp_path / "absent.pem")


@pytest.fixture
def run_as() -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)

    return run


def test_the_licences_of_all_packages_are_in_one_file_and_each_text_once(tmp_path: Path) -> None:
    for name, licence in (("a", "MIT"), ("b", "MIT"), ("c", "")):
        with zipfile.ZipFile(tmp_path / f"{name}-1.whl", "w") as wheel:
            expression = f"License-Expression: {licence}\n" if licence else ""
            wheel.writestr(f"{name}-1.dist-info/METADATA", f"Name: {name}\nVersion: 1\n{expression}")
            wheel.writestr(f"{name}-1.dist-info/licenses/LICENSE", "the same words" if licence else "other words")
    collect_licences(tmp_path, tmp_path)
    text = (tmp_path / "LICENCES.txt").read_text()
    assert text.startswith("a 1: MIT\nb 1: MIT\nc 1: see the text\n")
    assert (text.count("the same words"), text.count("other words")) == (1, 1)
    assert "\na 1, b 1\n" in text


def test_a_release_names_its_commit(sources: Sources, tmp_path: Path) -> None:
    describe(sources, [Target("3.12", "aarch64")], tmp_path)
    content = json.loads((tmp_path / "release.json").read_text())
    assert (content["version"], content["targets"]) == ("1.2.3rc4", ["cp312-aarch64"])
    assert re.fullmatch("[0-9a-f]{40}", content["commit"])


def test_the_provenance_names_each_file_the_commit_and_the_lock_file(sources: Sources, tmp_path: Path) -> None:
    folder, lock = tmp_path / "release", tmp_path / "spark.lock"
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels" / "a.whl").write_bytes(b"a")
    lock.write_bytes(b"b")
    targets = [Target("3.12", "aarch64")]
    describe(sources, targets, folder)
    texts = []
    for each in (sources, sources, replace(sources, commit=UNKNOWN)):
        (folder / PROVENANCE).unlink(missing_ok=True)
        state_provenance(each, targets, lock, folder)
        texts.append((folder / PROVENANCE).read_text())
    assert texts[0] == texts[1]
    statement = json.loads(texts[0])
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    assert subjects["wheels/a.whl"] == hashlib.sha256(b"a").hexdigest()
    assert set(subjects) == {"release.json", "wheels/a.whl"}
    made = statement["predicate"]["buildDefinition"]
    digests = {each["name"]: each["digest"] for each in made["resolvedDependencies"]}
    expected = {"release/spark.lock": {"sha256": hashlib.sha256(b"b").hexdigest()}}
    assert digests == {**expected, "sources": {"gitCommit": sources.commit}}
    assert made["externalParameters"] == {"version": "1.2.3rc4", "targets": ["cp312-aarch64"]}
    unknown = json.loads(texts[2])["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [each["name"] for each in unknown] == list(expected)


def test_another_version_of_python_is_one_sentence(tmp_path: Path) -> None:
    program = "import runpy, sys; runpy.run_path(sys.argv[1], {'site_packages': sys.argv[2]})"
    check = ROOT / "release" / "check_python.py"

    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, check, tmp_path]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    number = "".join(map(str, sys.version_info[:2]))
    other = run()
    assert other.returncode == 1
    assert other.stderr.startswith("gapless: this file is for another version of Python than ")
    assert other.stderr.endswith(f"take the one with cp{number} in its name.\n")
    (tmp_path / f"_cffi_backend.cpython-{number}-x86_64-linux-gnu.so").touch()
    assert run().returncode == 0


def test_images_are_for_machines_that_are_known() -> None:
    assert machines_of("x86_64  aarch64") == ("x86_64", "aarch64")
    for text in ("arm64", "x86_64 riscv64", ""):
        with pytest.raises(ArgumentTypeError, match=f"x86_64 and aarch64, and not for {text or 'nothing'}$"):
            machines_of(text)


def test_each_archive_is_that_of_its_image_in_whatever_order_they_are_built() -> None:
    said = "/a/sender{0}.tar\n/a/operator{0}.tar\n/a/spark{0}.tar\n"
    for architecture in ("", "-arm64"):
        found = archives_by_name(said.format(architecture))
        assert found == {name: Path(f"/a/{name}{architecture}.tar") for name in IMAGES}


def test_no_line_of_a_help_is_a_request_or_an_escape_in_a_manual_page() -> None:
    text = "Usage: gapless scan [OPTIONS]\n\n  Read.\n.so /etc/passwd\n'so x\n  a\\b --topic=`x`\n"
    page = manual_page("gapless-scan", "Read the gaps topic.", text, "1.2.3", "2026-01-02")
    title, _, name, *lines = page.splitlines()
    assert title == '.TH "GAPLESS-SCAN" 1 "2026-01-02" "Gapless 1.2.3"'
    assert name == r"gapless\-scan \- Read the gaps topic"
    assert {line.split()[0] for line in lines if line.startswith((".", "'"))} == {".SH", ".nf", ".fi"}
    assert r"  a\eb \-\-topic=\(gax\(ga" in lines
    assert r"\&.so /etc/passwd" in lines


@pytest.mark.parametrize(
    ("called_with", "is_kept"), [("0", False), ("1", True), ("remove", False), ("upgrade", False)], ids=str
)
def test_only_an_upgrade_by_rpm_keeps_the_bytecode(tmp_path: Path, called_with: str, *, is_kept: bool) -> None:
    """By then rpm has run the new package's script, which makes it; dpkg has not."""
    (tmp_path / "a" / "__pycache__").mkdir(parents=True)
    script = (ROOT / "release/system/preremove.sh").read_text().replace("/usr/lib/gapless", str(tmp_path))
    subprocess.run(["sh", "-c", script, "preremove", called_with], check=True)
    assert (tmp_path / "a").exists()
    assert (tmp_path / "a" / "__pycache__").exists() == is_kept


def test_the_archive_for_a_closed_network_is_the_same_twice_and_keeps_what_is_a_program(tmp_path: Path) -> None:
    archives = []
    for number in range(2):
        release = tmp_path / str(number) / "1.2.3"
        (release / "images").mkdir(parents=True)
        (release / "images" / "digests").write_text("sha256:0  operator\n")
        (release / "load.sh").write_text("#!/bin/sh\n")
        (release / "load.sh").chmod(0o750 if number else 0o755)
        os.utime(release / "load.sh", (number, number))
        pack_offline(Sources(tmp_path, UNKNOWN, 86400, "1.2.3"), release)
        archives.append(release / "gapless-offline-1.2.3.tar")
    assert archives[0].read_bytes() == archives[1].read_bytes()
    assert archives[0].with_name(f"{archives[0].name}.sha256").read_text() == (
        f"{digest_of(archives[0])}  gapless-offline-1.2.3.tar\n"
    )
    with tarfile.open(archives[0]) as packed:
        assert [(member.name, member.mode, member.mtime, member.uname) for member in packed] == [
            ("gapless-1.2.3/images/digests", 0o644, 86400, ""),
            ("gapless-1.2.3/load.sh", 0o755, 86400, ""),
        ]
