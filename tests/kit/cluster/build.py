"""Building the cluster's Go programs, each from its module and once per machine.

Must not know the arguments of the programs. The digest of all sources is stored beside a program, so that another
version of a module replaces it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kit.cluster.architectures import ARCHITECTURES, machine
from kit.cluster.packages import install
from kit.cluster.places import CHECKOUT, GO_MODULES, ClusterError, places
from kit.cluster.shell import run, say, stage
from kit.machine.maven import file_lock

_KUBERNETES = "v1.36.3"
_TOOLCHAIN = "1.26.8"
"""Downloaded as a Go module if the machine's Go is older than 1.21 and cannot switch toolchains itself."""

_COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)


def _version_flags() -> str:
    """Return linker flags for the version, which Kubernetes' makefiles set; clients reject an empty version."""
    major, minor = re.findall(r"\d+", _KUBERNETES)[:2]
    facts = {
        "gitVersion": _KUBERNETES,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in facts.items())


@dataclass(frozen=True)
class Program:
    """One program: a package in the module of the same name."""

    name: str
    package: str
    cold: str
    """Duration of the first build on two cores."""
    link_flags: str = ""
    links: tuple[str, ...] = ()
    modules: Path = GO_MODULES
    """The folder with the folder of its Go module."""

    @property
    def module(self) -> Path:
        """Folder of the Go module."""
        return self.modules / self.name

    @property
    def file(self) -> Path:
        """The built program."""
        return places().programs / self.name

    def digest(self) -> str:
        """Return the digest of all inputs of the build."""
        state = hashlib.sha256(f"{self.package}|{self.link_flags}|{machine()}".encode())
        for source in sorted(self.module.iterdir()):
            state.update(source.name.encode() + b"\0" + source.read_bytes())
        return state.hexdigest()

    @property
    def built(self) -> bool:
        """Whether the program exists and was built from the current sources."""
        try:
            return self.file.exists() and self._digest_file.read_text() == self.digest()
        except FileNotFoundError:
            return False

    @property
    def _digest_file(self) -> Path:
        return self.file.with_suffix(".digest")

    def build(self) -> Path:
        """Build the program if it is missing or stale; return its path.

        Raises:
            ClusterError: Go is missing, or the build failed.
        """
        if not self.built:
            with file_lock(places().cache / "cluster" / "build.lock"):
                if not self.built:
                    self._build()
        for link in self.links:
            path = self.file.with_name(link)
            if not path.is_symlink():
                path.symlink_to(self.name)
        return self.file

    def _build(self) -> None:
        go = go_program()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with stage(f"{self.name}: building from Go modules ({self.cold} the first time on a machine)"):
            temporary = self.file.with_suffix(f".new{os.getpid()}")
            flags = ["-trimpath", "-ldflags", f"-s -w {self.link_flags}".strip(), "-o", str(temporary)]
            run(
                [go, "build", *flags, self.package],
                what=f"Building {self.name}",
                environment=go_environment(),
                folder=self.module,
            )
            temporary.rename(self.file)
            self._digest_file.write_text(self.digest())

    def module_folder(self, path: str) -> Path:
        """Return the source folder of the dependency `path`, which also has its charts and manifests."""
        listed = run(
            [go_program(), "list", "-m", "-f", "{{.Dir}}", path],
            what=f"Finding {path}",
            environment=go_environment(),
            folder=self.module,
        ).strip()
        if not listed:
            run(
                [go_program(), "mod", "download", path],
                what=f"Fetching {path}",
                environment=go_environment(),
                folder=self.module,
            )
            return self.module_folder(path)
        return Path(listed)


KUBE = Program("kube", ".", "6 to 17 minutes", _version_flags(), _COMPONENTS)
COREDNS = Program("coredns", ".", "1 minute")
HELM = Program("helm", "helm.sh/helm/v3/cmd/helm", "2 minutes", modules=CHECKOUT / "release")
CRANE = Program("crane", "github.com/google/go-containerregistry/cmd/crane", "1 minute", modules=CHECKOUT / "release")
SPARK_OPERATOR = Program("spark-operator", "github.com/kubeflow/spark-operator/v2/cmd/operator", "2 minutes")
KIND = Program("kind", "sigs.k8s.io/kind", "10 seconds")


def go_environment() -> dict[str, str]:
    """Return the environment of every build: the kit's caches, and the toolchain that go.mod requires."""
    folder = places().cache / "go"
    return os.environ | {
        "GOMODCACHE": str(folder / "mod"),
        "GOCACHE": str(folder / "build"),
        "GOFLAGS": "-buildvcs=false -modcacherw",
        "GOTOOLCHAIN": "auto",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def go_program() -> Path:
    """Return the path of a Go that is new enough; install one if needed.

    Raises:
        ClusterError: Go is missing and cannot be installed.
    """
    go = shutil.which("go")
    if go is not None and _version(go) >= (1, 21):
        return Path(go)
    toolchain = places().cache / "go" / "toolchain"
    if not toolchain.exists():
        if go is None:
            install({"go": "golang-go"}, reason="builds the cluster's programs")
            go = shutil.which("go")
        if go is None:
            raise ClusterError("Go 1.21 or newer is missing: install it from your system or from go.dev, and retry.")
        _fetch_toolchain(go, toolchain)
    return toolchain / "bin" / "go"


def _version(go: str) -> tuple[int, int]:
    output = subprocess.run([go, "env", "GOVERSION"], check=False, capture_output=True, text=True).stdout
    numbers = re.match(r"go(\d+)\.(\d+)", output)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _fetch_toolchain(go: str, toolchain: Path) -> None:
    """Download a newer Go with an old one: since 1.21 the toolchain is published as a Go module."""
    module = f"golang.org/toolchain@v0.0.1-go{_TOOLCHAIN}.linux-{ARCHITECTURES.get(machine(), machine())}"
    say(f"Go {_TOOLCHAIN}: downloading the toolchain (70 MB), because the Go of this machine is older than 1.21")
    environment = go_environment()
    environment.pop("GOTOOLCHAIN")
    run([go, "mod", "download", module], what="Fetching the Go toolchain", environment=environment, folder=Path("/"))
    folder = Path(environment["GOMODCACHE"]) / module
    # Files of a Go module are not executable.
    for program in [*(folder / "bin").iterdir(), *(folder / "pkg" / "tool").rglob("*")]:
        if program.is_file():
            program.chmod(0o755)
    toolchain.parent.mkdir(parents=True, exist_ok=True)
    toolchain.symlink_to(folder)
