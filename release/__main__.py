"""The order in which a release is made, and its folder; must not know how the parts are made."""

from __future__ import annotations

import argparse
import itertools
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from release.demonstration import pack_demonstration
from release.documentation import pack_site
from release.images import build_crane, build_images, machines_of, pack_images, pack_offline
from release.kubernetes import build_helm, join_definitions, pack_chart, render_roles
from release.listing import describe, sign, state_provenance, write_sums
from release.materials import collect_licences, list_materials, list_wheels
from release.packages import ARCHITECTURES, VERSIONS, Target, build_own, build_spark, fetch_others
from release.program import build_program, install_site
from release.sources import Sources, export
from release.steps import ReleaseError, say
from release.system_packages import SystemPackages

_ROOT = Path(__file__).parents[1]


def main() -> int:
    """Make a release; return 0, or 2 with one sentence."""
    options = _parser().parse_args()
    targets = [Target(*each) for each in itertools.product(options.python.split(), options.architecture.split())]
    folder: Path = options.into / options.version
    try:
        with tempfile.TemporaryDirectory(prefix="gapless-release-") as made:
            _make(options, targets, Path(made) / options.version)
            if folder.exists():
                shutil.rmtree(folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(made) / options.version, folder)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    say(f"release {options.version}: {size / 1e6:,.0f} MB in {folder}; its digests are in SHA256SUMS")
    return 0


def _make(options: argparse.Namespace, targets: list[Target], release: Path) -> None:
    sources = export(_ROOT, release.parent / "sources", options.version)
    wheels, locks = release / "wheels", sources.folder / "release"
    lock = locks / ("spark.lock" if options.spark else "requirements.lock")
    wheels.mkdir(parents=True)
    build_own(sources, options.uv, wheels)
    fetch_others(lock, targets, options.uv, wheels)
    if options.spark:
        build_spark(lock, sources, wheels)
    if options.program or options.system_packages:
        _build_programs(options, targets, sources, release)
    pack_chart(sources, release)
    join_definitions(sources, release)
    pack_site(sources, release)
    if options.demo:
        pack_demonstration(sources, release)
    if options.manifests:
        render_roles(sources, build_helm(release.parent), release)
    if options.images:
        programs = build_crane(release.parent)
        machines = options.image_architecture or (platform.machine(),)
        archives = build_images(sources, _ROOT / ".tools", machines)
        pack_images(archives, sources, programs, release)
    list_materials(lock, release)
    list_wheels(sources, wheels, release)
    collect_licences(wheels, release)
    describe(sources, targets, release)
    state_provenance(sources, targets, lock, release)
    if options.key is None:
        write_sums(release)
    else:
        sign(release, options.key)
    if options.images:
        pack_offline(sources, release)


def _build_programs(options: argparse.Namespace, targets: list[Target], sources: Sources, release: Path) -> None:
    """Write the programs in one file and the packages for systems, which hold the same packages of Python."""
    sites = {target: release.parent / f"site-{target.tag}" for target in targets}
    for target, site in sites.items():
        install_site(release / "wheels", target, options.uv, site)
    if options.program:
        for target, site in sites.items():
            build_program(site, target, release)
    if options.system_packages:
        own = Target.own()
        if own not in sites:
            raise ReleaseError(
                f"The manual pages are made by Python {own.python} on {own.architecture}, for which no packages were "
                f"wanted: add it, or leave out packages for systems: --no-system-packages."
            )
        packages = SystemPackages(sources, sites[own], release.parent / "system")
        for target, site in sites.items():
            packages.write(target, site, release)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make release", description="Make a release from the last commit.")
    parser.add_argument("--version", required=True)
    parser.add_argument("--uv", required=True, type=Path, help="the program uv")
    parser.add_argument("--into", default=Path("build/release"), type=Path, help="folder of all releases")
    parser.add_argument("--python", default=" ".join(VERSIONS), help="versions of Python")
    parser.add_argument("--architecture", default=" ".join(ARCHITECTURES))
    parser.add_argument("--key", type=Path, help="file with an Ed25519 private key (PEM), to sign the digests")
    parser.add_argument("--spark", action=argparse.BooleanOptionalAction, default=True, help="PySpark's wheel, too")
    parser.add_argument("--program", action=argparse.BooleanOptionalAction, default=True, help="gapless.pyz, too")
    parser.add_argument(
        "--demo",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the demonstration, too; this needs Java and Maven",
    )
    parser.add_argument(
        "--system-packages",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="packages for Debian and RPM, too; this needs Go",
    )
    parser.add_argument(
        "--manifests",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the chart as manifests for kubectl, too; this needs Go",
    )
    parser.add_argument(
        "--images",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="container images, and an archive of all for a closed network, too; this needs Go, and Docker, Podman or "
        "root",
    )
    parser.add_argument(
        "--image-architecture",
        type=machines_of,
        help="architectures of the container images (default: that of this machine); QEMU builds another one, slowly",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
