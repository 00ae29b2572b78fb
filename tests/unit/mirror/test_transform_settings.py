"""The checks of the settings of a mirror's SQL."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_mirror.lanes.provenance import NO_PROVENANCE
from gapless_mirror.settings.table import MIRROR
from gapless_mirror.settings.typed import MirrorSettings, lane_setup
from gapless_mirror.sql.evaluation import Transform

if TYPE_CHECKING:
    from gapless_mirror.lanes.setup import LaneSetup

CLUSTERS: Any = SimpleNamespace(provenance=NO_PROVENANCE, record=None)
OWN = {"sourceBootstrapServers": "a:9092", "targetBootstrapServers": "b:9092", "topics": "orders"}


def setup_of(**options: str) -> LaneSetup:
    values = resolve(MIRROR, file=None, environment={}, options={**OWN, **options}).values
    return lane_setup(values, 8, 1, CLUSTERS)


def test_a_transform_sends_records_only_to_topics_that_the_target_allows() -> None:
    own = {"transform": "SELECT 'secrets' AS topic FROM records", "targetAllowedTopics": "errors,orders*"}
    with pytest.raises(ConfigurationError, match="transform requests the topic secrets, and only errors"):
        setup_of(transformTopics="errors,secrets", **own)
    assert setup_of(transformTopics="errors", **own).transform is not None


@pytest.mark.parametrize("engine", ["workers", "spark"])
def test_with_sql_workers_copy_whatever_the_engine(engine: str) -> None:
    setup = setup_of(transform="WHERE true", transformSocket="/run/s", transformTopics="b,a", engine=engine)
    assert setup.transform == Transform(statement="WHERE true", socket=Path("/run/s"), targets=frozenset("ab"))
    assert setup.engine == "workers"
    assert setup_of(engine=engine).engine == engine


@pytest.mark.parametrize("name", ["transformTopics", "transformSocket"])
def test_a_setting_of_sql_without_sql_is_a_mistake(name: str) -> None:
    values = resolve(MIRROR, file=None, environment={}, options={**OWN, name: "x"}).values
    with pytest.raises(ConfigurationError, match=f"{name} has no effect without transform"):
        _ = MirrorSettings.of(values).sql
