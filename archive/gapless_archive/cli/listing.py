"""The output of ``gapless segments list`` and ``show``; must not know how a summary is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.quantities import quantity
from gapless_api.cli.json_output import print_json
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION, unpadded_decimal
from gapless_api.wire.form import to_plain
from gapless_archive.catalog.catalog import generation_order, only_region
from gapless_archive.catalog.entry import SEGMENT, Segment, absent_ranges
from gapless_archive.catalog.peer_segments import PEER_GENERATION, layout_note, uncommitted_note
from gapless_archive.cli.texts import ranges_text, size_text, table_text
from gapless_archive.inspection.summary import PartitionSummary, generation_summaries, summaries
from gapless_archive.segments.peer_adoption import read_state
from gapless_archive.selection import Selection, selection_from

if TYPE_CHECKING:
    from gapless_api.base.settings import Resolved
    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.order import GenerationOrder
    from gapless_archive.catalog.state import TopicState
    from gapless_archive.store.places import Place

_HEADINGS = ("topic", "topic ID", "partition", "segments", "levels", "records", "stored", "lost", "covered")


def run_list(settings: Resolved, *, as_json: bool) -> int:
    """Print the partitions of the selected topics. Raises GaplessError."""
    selection = selection_from(settings.values)
    place = selection.open()
    chains = selection.chains(place, changes=False)
    states = [read_state(chain) for chain in chains]
    partitions = [
        summary
        for chain, state in zip(chains, states, strict=True)
        for summary in summaries(chain, state, partitions=selection.partitions)
    ]
    topics = sorted({(chain.region, chain.topic) for chain in chains})
    orders = [generation_order(place, region, topic) for region, topic in topics]
    if as_json:
        content = {
            "archive": place.name,
            "partitions": [to_plain(each) for each in partitions],
            "generations": [to_plain(each) for order in orders for each in generation_summaries(order)],
        }
        print_json(content, "partitions")
        return 0
    click.echo(table_text(_HEADINGS, [_row(each) for each in partitions], left=2))
    listed_topics = {(each.topic, each.topic_id) for each in partitions}
    stored = size_text(sum(each.stored_bytes for each in partitions))
    records = sum(each.records for each in partitions)
    click.echo(
        f"{quantity(records, 'record')} of {quantity(len(listed_topics), 'topic')} in "
        f"{quantity(len(partitions), 'partition')}, {stored} stored."
    )
    for order in orders:
        if len(order.generations) > 1:
            click.echo(_order_text(order))
    for note in sorted({note for chain in chains if (note := layout_note(chain))}):
        noted = ", ".join(sorted({chain.topic for chain in chains if layout_note(chain) == note}))
        click.echo(f"{noted}: {note}; the number of records in segments of kafka-replicator is an upper bound.")
    for chain, state in zip(chains, states, strict=True):
        if note := uncommitted_note(state):
            click.echo(f"{chain.topic}: {note}.")
    held = sorted({each.topic for each in partitions if each.held})
    if held:
        click.echo(f"On hold, nothing is deleted: {', '.join(held)}.")
    return 0


def _row(partition: PartitionSummary) -> tuple[str, ...]:
    lost = sum(last - first + 1 for first, last in partition.lost)
    return (
        partition.topic,
        partition.topic_id,
        str(partition.partition),
        f"{partition.segments:,}",
        ",".join(map(str, partition.levels)) or "-",
        f"{partition.records:,}",
        size_text(partition.stored_bytes),
        f"{lost:,}",
        ranges_text(partition.covered),
    )


def _order_text(order: GenerationOrder) -> str:
    topic = order.generations[0].chain.topic
    ids = [each.chain.topic_id or PEER_GENERATION for each in order.generations]
    head = f"{topic} has {len(ids):,} generations: {', '.join(ids)}"
    if order.newest is None:
        return (
            f"{head}. No commit proves which one is the newest: a restore needs --topic-id. gapless archive records it "
            f"for the one that Kafka has."
        )
    return f"{head}. {order.newest.chain.topic_id} is the newest."


def run_show(what: str, settings: Resolved, *, as_json: bool) -> int:
    """Print the manifests of segments. Raises GaplessError."""
    selection = selection_from({**settings.values, "topics": (), "generation": None, "partitions": None})
    place = selection.open()
    segments = list(_find_segments(what, place, selection))
    if not segments:
        raise ConfigurationError(
            f"{place.name} has no segment {what}; give TOPIC/PARTITION/OFFSET, or the key of an object from gapless "
            f"segments verify."
        )
    if as_json:
        print_json([_as_json(chain, segment, state) for chain, state, segment in segments])
        return 0
    for number, (chain, state, segment) in enumerate(segments):
        if number:
            click.echo()
        for name, text in _lines(chain, segment, state):
            click.echo(f"{name + ':':<17}{text}")
    return 0


def _find_segments(what: str, place: Place, selection: Selection) -> Iterator[tuple[Chain, TopicState, Segment]]:
    rest, _, number = what.rpartition("/")
    topic, _, partition_text = rest.rpartition("/")
    partition = unpadded_decimal(partition_text, MAX_PARTITION) if partition_text else None
    offset = unpadded_decimal(number, MAX_OFFSET) if number else None
    region = only_region(place, selection.region)
    for chain in selection.chains(place, changes=False):
        if topic and partition is not None and offset is not None:
            if chain.topic == topic:
                state = read_state(chain)
                segments = state.segments(partition)
                yield from ((chain, state, each) for each in segments if each.first <= offset < each.end)
        elif what.startswith(f"{region}/{chain.topic}/"):
            state = read_state(chain)
            yield from ((chain, state, each) for each in state.all_segments() if each.object == what)


def _lines(chain: Chain, segment: Segment, state: TopicState) -> list[tuple[str, str]]:
    absent = absent_ranges(segment.absent)
    return [
        ("object", segment.object or "none, as there are no records"),
        ("topic", f"{chain.topic} ({chain.topic_id}), partition {segment.partition}"),
        ("level", str(segment.level)),
        ("covered offsets", ranges_text([(segment.first, segment.last)])),
        ("absent offsets", f"{absent.count:,}: {ranges_text(list(absent.pairs(0, 8)), 7)}" if absent else "none"),
        ("records", f"{segment.records:,} with {size_text(segment.bytes)}, {size_text(segment.stored_bytes)} stored"),
        ("row groups", f"{len(segment.row_groups):,}, {segment.codec}, layout {segment.layout}"),
        ("digest", segment.digest),
        ("written", f"{segment.written_at} (epoch {segment.epoch})"),
        ("held", "yes" if state.is_held else "no"),
    ]


def _as_json(chain: Chain, segment: Segment, state: TopicState) -> dict[str, Any]:
    manifest = SEGMENT.to_json(segment)
    manifest["absent"] = [[first, last] for first, last in absent_ranges(segment.absent)]
    return {
        "region": chain.region,
        "topic": chain.topic,
        "topicId": chain.topic_id,
        "held": state.is_held,
        "segment": manifest,
    }
