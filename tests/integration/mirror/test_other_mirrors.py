"""The proof that a mirror reads the flows of others at once: one that it cannot read hides and delays no other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AclOperation

from gapless_api.base.errors import SourceUnreachableError
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.access.errors import TopicMissingError
from gapless_mirror.lanes.control import LaneState, read_first_lanes
from kit.kafka.cluster import USERS

if TYPE_CHECKING:
    from mirror.conftest import Scene

    from conftest import TopicFactory

pytestmark = pytest.mark.integration
_NEVER_SECONDS = 3600.0
"""A test that waits for this fails by its timeout."""


def test_a_control_topic_that_was_deleted_or_is_denied_delays_and_hides_no_other(
    scene: Scene, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    scene.source.produce(name, [b"1"])
    assert scene.run(f"--topics={name}", "--once", "--heartbeat=false").wait() == 0
    read = f"_gapless_mirror_{scene.name}"
    denied, deleted = (scene.target.create_topic(f"{read}-{what}") for what in ("denied", "deleted"))
    scene.target.deny(denied, "alice", AclOperation.READ)
    scene.target.allow(denied, "alice", AclOperation.DESCRIBE)
    scene.target.delete_topic(deleted)
    password = tmp_path / "password"
    password.write_text(USERS["alice"])
    alice = KafkaConnection(
        bootstrap_servers=scene.target.address("SASL_PLAINTEXT"),
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password_file=password,
    )

    # All were listed, and one is gone when they are read.
    states = read_first_lanes(alice, [deleted, denied, read], timeout_seconds=_NEVER_SECONDS)
    found = states[read]
    assert isinstance(found, LaneState)
    assert found.flow is not None
    assert found.flow.topics == (name,)
    assert isinstance(states[deleted], TopicMissingError)
    assert isinstance(states[denied], SourceUnreachableError)
    assert "denies access" in str(states[denied])


def test_the_mirrors_of_a_cluster_are_read_however_many_there_are(scene: Scene) -> None:
    controls = [f"_gapless_mirror_{scene.name}-{number}" for number in range(60)]
    for control in controls[:1] + controls[-1:]:
        scene.target.create_topic(control)
    connection = KafkaConnection(bootstrap_servers=scene.target.bootstrap)
    states = read_first_lanes(connection, controls, timeout_seconds=_NEVER_SECONDS)
    there = [control for control in controls if isinstance(states[control], LaneState)]
    assert there == [controls[0], controls[-1]]
    assert all(isinstance(states[control], TopicMissingError) for control in controls[1:-1])
