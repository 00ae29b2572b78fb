"""A release is the same twice, its folder is all that an installation needs, and each way to install works as it is."""

from __future__ import annotations

import json
import os
import platform
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyroaring import BitMap

from kit.cluster.api_server import ApiServer
from kit.cluster.build import go_environment, go_program
from kit.story.releases import PYTHON, make_release

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

VERSION = "9.8.7rc1"
_ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.timeout(900)


def made(into: Path) -> Path:
    """Make a release for this machine, without what other tests make, and return its folder."""
    shell = go_environment()
    shell["PATH"] = os.pathsep.join((str(go_program().parent), shell["PATH"]))
    said = make_release(into, VERSION, "--no-spark", "--no-program", "--no-images", environment=shell).stdout
    assert said.splitlines()[-1].startswith(f"==> release {VERSION}: ")
    return into / VERSION


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release that the tests share."""
    return made(tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="module")
def unpacked(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the package for Debian holds."""
    folder = tmp_path_factory.mktemp("unpacked")
    [package] = release.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder


def test_a_release_is_the_same_twice(release: Path, tmp_path: Path) -> None:
    sums = (release / "SHA256SUMS").read_text()
    assert f"wheels/gapless_sender-{VERSION}-py3-none-any.whl" in sums
    assert all(f".{kind}\n" in sums for kind in ("deb", "rpm", "tgz", "yaml"))
    assert sums == (made(tmp_path) / "SHA256SUMS").read_text()
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=release, check=True)

    stated = json.loads((release / "provenance.json").read_text())["subject"]
    listed = "".join(f"{each['digest']['sha256']}  {each['name']}\n" for each in stated)
    assert listed == "".join(line for line in sums.splitlines(keepends=True) if "provenance" not in line)


def test_the_bill_of_materials_names_each_wheel_and_its_licence(release: Path) -> None:
    sums = (release / "SHA256SUMS").read_text()
    materials = release / "sbom.spdx.json"
    subprocess.run([_ROOT / ".tools" / "release" / "bin" / "pyspdxtools", "--infile", materials], check=True)
    packages = json.loads(materials.read_text())["packages"]
    digests = [f"{each['checksums'][0]['checksumValue']}  {each['packageFileName']}" for each in packages[1:]]
    assert digests == [line for line in sums.splitlines() if line.endswith(".whl")]
    assert {each["licenseDeclared"] for each in packages if each["name"] == "click"} == {"BSD-3-Clause"}


def test_the_documentation_is_that_of_the_release(release: Path, tmp_path: Path) -> None:
    with tarfile.open(release / f"gapless-docs-{VERSION}.tgz") as packed:
        packed.extractall(tmp_path, filter="data")
    site = tmp_path / f"gapless-docs-{VERSION}"
    assert f"<title>Gapless {VERSION}</title>" in (site / "index.html").read_text()
    assert (site / "source" / "examples" / "diode.yaml").read_text() == (_ROOT / "examples" / "diode.yaml").read_text()


def test_a_release_installs_without_an_index(
    kafka: KafkaBroker, topic: TopicFactory, release: Path, tmp_path: Path
) -> None:
    where = tmp_path / "installed"
    subprocess.run([sys.executable, "-m", "venv", where], check=True)
    package = ("--no-index", f"--find-links={release / 'wheels'}", "gapless[archive]")
    subprocess.run([where / "bin" / "pip", "install", "--quiet", *package], check=True)

    gaps, bundle = topic(), tmp_path / "bundle.json"
    kafka.produce(gaps, [struct.pack(">Bqq", 1, 0, 5) + BitMap([2, 3]).serialize()], keys=[b"t:0:0"])

    def gapless(*arguments: str) -> str:
        ended = subprocess.run(
            [where / "bin" / "gapless", *arguments], cwd=tmp_path, check=False, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mvn").symlink_to("/bin/false")  # all that it needs is in the release
    environment = {
        **os.environ,
        "GAPLESS_DEMO_FOLDER": str(tmp_path / "demo"),
        "GAPLESS_CACHE": str(tmp_path / "cache"),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    demo = (release / "gapless-demo", "--short", "--events=5000")
    shown = subprocess.run(demo, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    assert "Nothing is missing; every event is byte-identical." in shown
    page = Path(shown.splitlines()[-1].partition("for a browser: ")[2])
    assert "<title>Gapless scan: " in page.read_text()

    assert gapless("--version") == f"gapless, version {VERSION}\n"
    gapless("scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={gaps}", f"--resend-file-name={bundle}")
    assert json.loads(bundle.read_text())["results"][0]["gaps"] == [[2, 3]]
    assert "Usage: gapless resend" in gapless("resend", "--help")


def called(program: Path, *arguments: str) -> str:
    """Run a program of the package with this Python, which has its name on the system that the package is for."""
    variables = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    command = [sys.executable, "-S", program, *arguments]  # -S: without the packages of this checkout
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=variables)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_command_of_a_package_needs_nothing_but_python(unpacked: Path) -> None:
    command = unpacked / "usr/bin/gapless"
    assert command.read_text().startswith(f"#!/usr/bin/python{PYTHON}\n")
    assert command.stat().st_mode & 0o777 == 0o755
    assert called(command, "--version") == f"gapless, version {VERSION}\n"
    for words in (["resend"], ["scan"], ["archive"], ["mirror"], ["cluster", "status"]):
        assert called(command, *words, "--help").startswith(f"Usage: gapless {' '.join(words)} ")
    plugin = unpacked / "usr/bin/kubectl-gapless"
    assert plugin.readlink() == Path("gapless")
    assert called(plugin, "status", "--help").startswith("Usage: gapless cluster status ")


def test_each_command_has_a_manual_page_with_its_complete_help(unpacked: Path) -> None:
    pages = unpacked / "usr/share/man/man1"
    names = {page.name for page in pages.iterdir()}
    assert {"gapless.1", "gapless-resend.1", "gapless-bundle-show.1", "gapless-cluster-ledger-export.1"} <= names
    help_all = called(unpacked / "usr/bin/gapless", "resend", "--help-all")
    page = (pages / "gapless-resend.1").read_text()
    options = {word for word in help_all.split() if word.startswith("--")}
    assert len(options) > 60
    assert [option for option in options if option.replace("-", r"\-") not in page] == []
    for page_file in pages.iterdir():
        title, *lines = page_file.read_text().splitlines()
        assert title.startswith(f'.TH "{page_file.stem.upper()}" 1 "20'), title
        requests = {line.split()[0] for line in lines if line.startswith((".", "'"))}
        assert requests == {".SH", ".nf", ".fi"}, page_file.name


def test_shells_complete_and_the_unit_starts_the_command_as_its_own_user(unpacked: Path, release: Path) -> None:
    share = unpacked / "usr/share"
    assert "_GAPLESS_COMPLETE" in (share / "bash-completion/completions/gapless").read_text()
    assert (share / "zsh/site-functions/_gapless").read_text().startswith("#compdef gapless")
    assert "complete" in (share / "fish/vendor_completions.d/gapless.fish").read_text()
    unit = (unpacked / "usr/lib/systemd/system/gapless-mirror@.service").read_text()
    assert " /usr/bin/gapless mirror /etc/gapless/" in unit
    assert "/opt/" not in unit
    [package] = release.glob("*.deb")
    control = {name: _control(package, name) for name in ("control", "postinst", "prerm")}
    fields = dict(line.split(": ", 1) for line in control["control"].splitlines() if ": " in line)
    assert fields["Version"] == "9.8.7~rc1-1.cp" + PYTHON.replace(".", "")
    assert f"python{PYTHON}" in fields["Depends"].split(", ")
    user = next(line.split("=")[1] for line in unit.splitlines() if line.startswith("User="))
    assert f"/usr/sbin/nologin {user}\n" in control["postinst"]
    assert "/usr/lib/gapless" in control["prerm"]


def _control(package: Path, name: str) -> str:
    packed = subprocess.run(["dpkg-deb", "--ctrl-tarfile", package], check=True, capture_output=True).stdout
    found = subprocess.run(["tar", "-xO", f"./{name}"], input=packed, check=True, capture_output=True)
    return found.stdout.decode()


def test_the_package_for_rpm_is_one(release: Path) -> None:
    [package] = release.glob("*.rpm")
    assert package.name == f"gapless-9.8.7~rc1-1.cp{PYTHON.replace('.', '')}.{platform.machine()}.rpm"
    content = package.read_bytes()
    assert content.startswith(b"\xed\xab\xee\xdb")
    assert b"python(abi)" in content


@pytest.mark.parametrize(("side", "kind"), [("receiving", "GapScan"), ("sending", "Resend")])
def test_kubectl_installs_a_side_from_one_file(release: Path, side: str, kind: str) -> None:
    file = release / f"gapless-install-{side}.yaml"
    documents: list[dict[str, Any]] = [each for each in yaml.load_all(file.read_text(), yaml.CSafeLoader) if each]
    namespaces = {each["metadata"]["name"] for each in documents if each["kind"] == "Namespace"}
    assert {each["metadata"].get("namespace", "gapless-system") for each in documents} <= namespaces
    with ApiServer() as api:
        for _ in range(2):  # a second time changes nothing
            api.kubectl("apply", "--server-side", "--filename", str(file))
        [operator] = api.request("GET", "/apis/apps/v1/namespaces/gapless-system/deployments")["items"]
        [container] = operator["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"gapless/operator:{VERSION}"
        names = api.kubectl("api-resources", "--api-group=gapless.dev", "--no-headers")
        assert f" {kind}\n" in names
