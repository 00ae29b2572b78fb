"""A sender reads only topics that its arguments allow, whatever a file or a bundle asks for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    import subprocess

ALLOWED = "--allowed-topics=transfer,orders-*"
NOWHERE = "127.0.0.1:1"
"""No Kafka: a topic must be refused before it is asked."""


def resend(folder: Path, *arguments: str, lines: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    file = folder / "resend.properties"
    file.write_text(
        f"bootstrapServers={NOWHERE}\ntargetIP=127.0.0.1\ntargetPort=9\nconnectTimeout=0.1\neps=100\n{lines}"
    )
    return GAPLESS.run("resend", str(file), *arguments, env={"PATH": os.environ["PATH"], **environment})


def bundle(folder: Path, *entries: tuple[str, int]) -> str:
    results: list[dict[str, Any]] = [
        {"topic": topic, "partition": partition, "window_min": 0, "window_max": 9, "gaps": [[5]]}
        for topic, partition in entries
    ]
    file = folder / "bundle.json"
    file.write_text(json.dumps({"type": "all", "results": results}))
    return f"resendFileName={file}\n"


OFFSETS = "topic={}\npartition=0\noffsetFrom=0\noffsetTo=1\n"
REFUSED = "requests the topic secrets, and only transfer, orders-* may be used"


@pytest.mark.parametrize("more", [(), ("--plan",), ("--shard-count=2", "--shard-index=1")])
def test_a_topic_that_only_a_bundle_names_is_refused_before_kafka_is_asked(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    lines = bundle(tmp_path, ("transfer", 0), ("orders-eu", 1), ("secrets", 2))
    done = resend(tmp_path, ALLOWED, *more, lines=lines)
    assert done.returncode == 2
    assert f"The bundle {REFUSED}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_offsets_and_times_of_another_topic_are_refused(tmp_path: Path) -> None:
    for lines in (OFFSETS.format("secrets"), "topic=secrets\nfrom=2026-11-20T01:30:00Z\n"):
        done = resend(tmp_path, ALLOWED, lines=lines)
        assert done.returncode == 2
        assert f"The resend {REFUSED}" in done.stderr


def test_what_is_allowed_goes_on_to_kafka(tmp_path: Path) -> None:
    lines = bundle(tmp_path, ("transfer", 0), ("orders-eu", 1))
    assert resend(tmp_path, ALLOWED, lines=lines).returncode == 3
    assert resend(tmp_path, lines=OFFSETS.format("secrets")).returncode == 3, "on a shell nothing is withheld"


def test_neither_a_file_nor_a_variable_opens_more_than_the_argument(tmp_path: Path) -> None:
    lines = OFFSETS.format("secrets") + "allowedTopics=*\n"
    done = resend(tmp_path, ALLOWED, lines=lines, AIRGAP_RESEND_ALLOWED_TOPICS="*")
    assert done.returncode == 2
    assert REFUSED in done.stderr


def test_what_counts_is_the_name_in_kafka_and_not_the_one_on_the_wire(tmp_path: Path) -> None:
    lines = bundle(tmp_path, ("transfer", 0)) + 'topicTranslations={"secrets": "transfer"}\n'
    done = resend(tmp_path, ALLOWED, lines=lines)
    assert done.returncode == 2
    assert REFUSED in done.stderr
    lines = bundle(tmp_path, ("wired", 0)) + 'topicTranslations={"transfer": "wired"}\n'
    assert resend(tmp_path, ALLOWED, lines=lines).returncode == 3


def test_entries_of_other_clusters_are_skipped_and_not_refused(tmp_path: Path) -> None:
    lines = bundle(tmp_path, ("transfer", 0), ("secrets", 7)) + "partitionStopValue=6\n"
    assert resend(tmp_path, ALLOWED, lines=lines).returncode == 3


@pytest.mark.parametrize("server", ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.1:1"])
def test_a_bootstrap_server_on_the_machine_itself_is_refused_where_that_is_asked_for(
    tmp_path: Path, server: str
) -> None:
    lines = OFFSETS.format("transfer")
    done = resend(tmp_path, "--refuse-local-brokers", f"--bootstrap-servers={server}", lines=lines)
    assert done.returncode == 2
    assert f"The bootstrap server {server} resolves to " in done.stderr
    assert resend(tmp_path, f"--bootstrap-servers={server}", lines=lines).returncode == 3
    quiet = "refuseLocalBrokers=false\n"
    done = resend(tmp_path, "--refuse-local-brokers", f"--bootstrap-servers={server}", lines=lines + quiet)
    assert done.returncode == 2, "a file cannot switch it off"


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ("--archive-allowed-topics=orders-*", "requests the archived topic transfer, and only orders-* may be used"),
        ("--archive-allowed-regions=site-b", "The resend requests the region site-a, and only site-b may be used"),
        ("--archive-allowed-topics=transfer", ""),
        ("--archive-allowed-regions=site-*", ""),
    ],
)
def test_an_archive_is_read_only_as_its_arguments_allow(tmp_path: Path, lists: str, said: str) -> None:
    opened = "archiveAllowedTopics=*\narchiveAllowedRegions=*\n"
    lines = OFFSETS.format("transfer") + f"archive={tmp_path}\narchiveRegion=site-a\n{opened}"
    done = resend(tmp_path, lists, lines=lines)
    assert done.returncode == (2 if said else 3)
    assert said in done.stderr
