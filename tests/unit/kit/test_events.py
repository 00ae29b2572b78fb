from __future__ import annotations

from kit.kafka.events import LARGEST, EventSource, capacity, shares


def values(seed: int, count: int = 20_000) -> list[bytes | None]:
    return [event.value for event in EventSource("transfer", 3, seed=seed).events(count)]


def test_the_same_seed_gives_the_same_events() -> None:
    first = list(EventSource("transfer", 3, seed=5).events(500))
    assert first == list(EventSource("transfer", 3, seed=5).events(500))
    assert first != list(EventSource("transfer", 3, seed=6).events(500))
    assert first != list(EventSource("transfer", 4, seed=5).events(500))


def test_all_the_awkward_sizes_occur() -> None:
    found = values(1)
    sizes = [len(value or b"") for value in found]
    assert None in found
    assert b"" in found
    assert 20_000 < max(sizes) <= LARGEST
    exact = {
        size // capacity("transfer", 3, offset)
        for offset, size in enumerate(sizes)
        if size and size % capacity("transfer", 3, offset) == 0
    }
    assert {1, 2, 3} <= exact


def test_keys_and_headers_with_every_oddity_occur() -> None:
    events = list(EventSource("transfer", 0, seed=1).events(2000))
    assert {event.key is None for event in events} == {True, False}
    headers = next(event.headers for event in events if event.headers)
    assert [name for name, _ in headers] == ["trace", "trace", "empty", "null"]
    times = [event.timestamp_ms for event in events]
    assert times == sorted(times)


def test_every_partition_gets_its_share_and_none_is_lost() -> None:
    for events, partitions in ((100_000, 6), (7, 3), (1, 5), (0, 2)):
        counts = shares(events, partitions)
        assert sum(counts.values()) == events
        assert min(counts.values()) >= 0
        assert len(counts) == partitions
