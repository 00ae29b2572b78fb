"""The proof of which topics of an archive a restore opens, waits for or refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gapless_api.base.archive_bounds import ArchiveBounds
from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_archive.catalog.catalog import NotArchivedError
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import Place, open_place, parse_place
from gapless_spark.archiving.restore.settings import RESTORE, RestoreSettings
from gapless_spark.archiving.restore.works import open_topics
from unit.archive.archives import archived, chain


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An archive with the topic ``t`` of the region ``r``."""
    made = open_place(parse_place(str(tmp_path)), S3Access())
    archived(made, {0: (0, 10)})
    return made


def settings(place: Place, topics: str, **more: str) -> RestoreSettings:
    given = {"archive": place.name, "region": "r", "topics": topics, "bootstrapServers": "kafka:9092", **more}
    return RestoreSettings.of(resolve(RESTORE, file=None, environment={}, options=given).values)


def test_a_restore_that_follows_names_what_a_prefix_no_longer_finds(place: Place, tmp_path: Path) -> None:
    follows = settings(place, "t*", follow="true")
    (restore,), waits_for = open_topics(place, follows)
    begun = {(restore.source.region, restore.source.topic): restore.source.topic_id}
    assert waits_for == ()
    assert open_topics(place, follows, begun)[1] == ()
    shutil.rmtree(tmp_path / "r" / chain(place).topic)
    assert open_topics(place, follows, begun) == ([], ("r/t*", "r/t"))
    with pytest.raises(NotArchivedError, match="has no topic t in the region r"):
        open_topics(place, settings(place, "t", follow="true"), begun)


@pytest.mark.parametrize("named", ["t", "t*", "*"])
def test_a_refusal_names_only_what_was_requested(place: Place, named: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_topics(place, settings(place, named), bounds=ArchiveBounds(topics=("o*",)))
    noun = "archived topics" if named.endswith("*") else "archived topic"
    assert refused.value.args[0].startswith(f"The restore requests the {noun} {named}, and only o* may be used")
