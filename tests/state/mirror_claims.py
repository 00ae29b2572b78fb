"""What the commands beside a mirror say of it, and whether that is true: verify-copy, diff, doctor and groups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from state.mirror_oracle import HOLDS

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster
    from state.mirror_site import MirrorSite, Seen

COMMANDS = ("verify-copy", "diff", "doctor", "groups")


def check_claim(site: MirrorSite, command: str, share: float = 0.5) -> None:
    """Run a command, and check that it says nothing that is not true; `share` of the log is where a group is."""
    seen = site.look()
    states = {site.oracle.state(number, *seen) for number in site.oracle.copied}
    if command == "verify-copy":
        _check_comparison(site, seen)
    elif command == "groups":
        _check_group(site, seen, states, share)
    elif site.oracle.copied:
        topics = f"--topics={site.source.name}"
        if command == "diff":
            done = site.run("mirror", "diff", topics, f"--name={site.name}")
        else:
            source = f"--bootstrap-servers={site.kafka.bootstrap}"
            target = f"--target-bootstrap-servers={site.target.bootstrap}"
            done = site.commands.run("doctor", source, target, topics, f"--mirror={site.name}", "--timeout=5")
        assert states <= {HOLDS} or done.returncode == 4, f"{states}: {done.stdout}{done.stderr}"


def _check_comparison(site: MirrorSite, seen: Seen) -> None:
    pair = (f"kafka://{cluster.bootstrap}/{site.source.name}" for cluster in (site.kafka, site.target))
    done = site.commands.run("verify-copy", *pair, "--engine=local")
    copies = seen.target.logs if seen.target is not None else {}
    same = all(log.values() == (copies[p].values() if p in copies else []) for p, log in seen.source.logs.items())
    story = f"{seen}: {done.stdout}{done.stderr}"
    assert done.returncode in {0, 2, 4}, story
    assert same or done.returncode != 0, story
    is_whole = seen.target is not None and copies.keys() == seen.source.logs.keys()
    if same and is_whole and not any(log.start for log in (*seen.source.logs.values(), *copies.values())):
        assert done.returncode == 0, story


def _check_group(site: MirrorSite, seen: Seen, states: set[str], share: float) -> None:
    """Check that a group of the first partition continues at the same record, or that its position is refused."""
    one, log = site.oracle.copied.get(0), seen.source.logs[0]
    group, at = f"group-{site.name}", log.start + round((log.end - log.start) * share)
    _commit(site.kafka, group, site.source.name, at)
    done = site.run("mirror", "groups", f"--name={site.name}", f"--groups={group}", "--json")
    story = f"{states}, {one}, group at {at}, {seen}: {done.stdout}{done.stderr}"
    if one is None or not states <= {HOLDS} or seen.target is None:
        assert done.returncode != 0 or not json.loads(done.stdout)["moves"], story
        return
    assert done.returncode in {0, 4}, story
    there = _committed(site.target, group, site.source.name)
    if there is None:
        assert done.returncode == 4 or at >= one.next_offset or not one.target_end or site.had_groups, story
        return
    copy = seen.target.logs[0]
    assert there <= copy.end, story
    if done.returncode == 0 and at <= one.next_offset and not site.had_groups:
        rest = [record.value for record in log.records if at <= record.offset < one.next_offset]
        found = copy.values(there)
        assert found[-len(rest) :] == rest if rest else not found, f"continues at {there}: {story}"
    site.had_groups = True  # a group is never set back, so that only its first position is compared


def _commit(cluster: KafkaCluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer(cluster.client_options(**{"group.id": group, "enable.auto.commit": False}))
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def _committed(cluster: KafkaCluster, group: str, topic: str) -> int | None:
    consumer = Consumer(cluster.client_options(**{"group.id": group}))
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=20)
    consumer.close()
    return found.offset if found.offset >= 0 else None
