"""The clusters and the commands of the state machine tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kit.kafka.broker import KafkaBroker
from kit.machine.shared_resources import shared_resource
from state.archive_site import ArchiveSite
from state.commands import Commands
from state.mirror_site import MirrorSite
from state.peer_site import PeerSite

_FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def commands() -> Commands:
    """The command ``gapless``, with a clock of its own."""
    return shared_resource(_FOLDER, "commands", lambda: closing(Commands()))


@pytest.fixture(scope="module")
def mirror_site(commands: Commands) -> Callable[..., MirrorSite]:
    """Create a topic with a mirror; the clock is right again."""
    source = shared_resource(_FOLDER, "source", KafkaBroker)
    target = shared_resource(_FOLDER, "target", KafkaBroker)

    def create(partitions: int = 1, *, compacted: bool = False) -> MirrorSite:
        site = MirrorSite(source, target, commands, partitions, compacted=compacted)
        site.jump(0)
        return site

    return create


@pytest.fixture(scope="module")
def archive_site(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ArchiveSite]:
    """Create a topic with an archive; the clock is right again."""
    source = shared_resource(_FOLDER, "source", KafkaBroker)
    folder, numbers = tmp_path_factory.mktemp("archives"), itertools.count()

    def create(partitions: int = 1, *, compacted: bool = False) -> ArchiveSite:
        site = ArchiveSite(source, commands, folder / str(next(numbers)), partitions, compacted=compacted)
        site.jump(0)
        return site

    return create


@pytest.fixture(scope="module")
def peer_site(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., PeerSite]:
    """Create a topic with an archive that kafka-replicator writes, too; the clock is right again."""
    source = shared_resource(_FOLDER, "source", KafkaBroker)
    folder, numbers = tmp_path_factory.mktemp("archives-of-two"), itertools.count()

    def create(partitions: int = 1) -> PeerSite:
        site = PeerSite(source, commands, folder / str(next(numbers)), partitions)
        site.jump(0)
        return site

    return create
