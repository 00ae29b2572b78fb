"""The packages for Debian and RPM, and the manifests for kubectl, are what they say and can be used as they are."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kit.cluster.api_server import ApiServer
from kit.cluster.build import go_environment, go_program
from kit.story.releases import PYTHON, make_release

VERSION = "9.8.7rc1"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release for this machine, without what other tests make."""
    into = tmp_path_factory.mktemp("releases")
    shell = go_environment()
    shell["PATH"] = os.pathsep.join((str(go_program().parent), shell["PATH"]))
    make_release(into, VERSION, "--no-spark", "--no-program", "--no-images", environment=shell)
    return into / VERSION


@pytest.fixture(scope="module")
def unpacked(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the package for Debian holds."""
    folder = tmp_path_factory.mktemp("unpacked")
    [package] = release.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder


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
