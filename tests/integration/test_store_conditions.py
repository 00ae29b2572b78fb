"""The proof that a store that ignores conditional puts is refused, and that a lost answer is never a conflict."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError, StoreUnreachableError
from gapless_archive.catalog.chain import Changes
from gapless_archive.store import state_place
from gapless_archive.store.access import S3Access
from gapless_archive.store.conditional_puts import PROBES_FOLDER
from gapless_archive.store.object_store import ObjectAddress
from gapless_archive.store.places import Place, open_place, parse_place
from gapless_archive.store.state_place import StateError, StatePlace, blocks_name
from kit.object_store import ObjectStore
from kit.store_proxy import CUT, CUT_IN_THE_MIDDLE, LOST_ANSWER, NO_CONDITIONS, Fault, StoreProxy
from unit.archive.archives import archived, chain

pytestmark = pytest.mark.integration

BUCKET = "conditions"
HOLD = Changes(action="hold", hold=True)
LOST_ANSWERS = [LOST_ANSWER, Fault(status=500, code="InternalError", is_applied=True), CUT_IN_THE_MIDDLE]


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        running.make_bucket(BUCKET)
        yield running


@pytest.fixture
def proxy(store: ObjectStore) -> Iterator[StoreProxy]:
    with StoreProxy(store) as running:
        yield running


def access_to(store: ObjectStore, proxy: StoreProxy, folder: Path) -> S3Access:
    (folder / "access").write_text(store.ACCESS_KEY)
    (folder / "secret").write_text(store.SECRET_KEY)
    return S3Access(proxy.endpoint, access_key_file=folder / "access", secret_key_file=folder / "secret")


@pytest.fixture
def place(store: ObjectStore, proxy: StoreProxy, tmp_path: Path) -> Place:
    return open_place(parse_place(f"s3://{BUCKET}/{tmp_path.name}"), access_to(store, proxy, tmp_path))


@pytest.fixture
def state(store: ObjectStore, proxy: StoreProxy, tmp_path: Path) -> StatePlace:
    return state_place.open_place(ObjectAddress(BUCKET, tmp_path.name), access_to(store, proxy, tmp_path))


def commit(state: StatePlace, generation: int) -> bytes:
    file = blocks_name(generation)
    with state.new_blocks(file) as stream:
        stream.write(b"blocks")
    head = f"head {file}".encode()
    state.commit(head, file)
    return head


def puts(proxy: StoreProxy) -> list[str]:
    return [request.path for request in proxy.requests if request.method == "PUT"]


def test_an_archive_in_a_store_without_conditional_puts_is_refused_and_nothing_is_overwritten(
    place: Place, proxy: StoreProxy
) -> None:
    proxy.inject(NO_CONDITIONS)
    with pytest.raises(
        ConfigurationError,
        match=rf"^The object store of s3://{BUCKET} at {proxy.endpoint} ignores If-None-Match: it replaced an object "
        rf"against the condition of the put, so programs would overwrite each other's work; use a store with cond",
    ):
        chain(place).commit(chain(place).load(), HOLD)
    assert place.keys("") == []
    with pytest.raises(ConfigurationError, match="ignores If-None-Match"):  # a failed probe is not forgotten
        place.check_creation()
    assert not [path for path in puts(proxy) if f"/{PROBES_FOLDER}/" not in path]


def test_a_state_in_a_store_without_conditional_puts_is_refused_before_the_audit_reads(
    state: StatePlace, place: Place, proxy: StoreProxy
) -> None:
    proxy.inject(NO_CONDITIONS)
    with pytest.raises(ConfigurationError, match="ignores If-None-Match"), state:
        pytest.fail("the state was opened")
    assert place.keys("") == []


def test_a_state_in_a_store_that_ignores_only_if_match_is_refused(
    state: StatePlace, place: Place, proxy: StoreProxy
) -> None:
    proxy.inject(Fault(drops_conditions=True, only_condition="if-match"))
    with pytest.raises(ConfigurationError, match="ignores If-Match"), state:
        pytest.fail("the state was opened")
    assert place.keys("") == []
    place.check_creation()  # which is all that an archive needs


def test_a_store_is_probed_once_and_never_by_readers(place: Place, proxy: StoreProxy) -> None:
    assert chain(place).load().sequence == 0
    assert puts(proxy) == []
    archived(place, {0: (0, 10)})
    probes = [path for path in puts(proxy) if f"/{PROBES_FOLDER}/" in path]
    archived(place, {0: (10, 20)})
    assert [path for path in puts(proxy) if f"/{PROBES_FOLDER}/" in path] == probes
    assert len(probes) == 2
    assert not [key for key in place.keys("") if PROBES_FOLDER in key]


@pytest.mark.parametrize("fault", LOST_ANSWERS)
def test_a_probe_whose_answers_are_lost_is_no_wrong_verdict(place: Place, proxy: StoreProxy, fault: Fault) -> None:
    rule = proxy.inject(fault, "PUT", PROBES_FOLDER, times=1)
    place.check_creation()
    assert rule.met == 1
    assert place.keys("") == []


def test_a_store_that_does_not_answer_the_probe_is_unreachable_and_probed_again(
    place: Place, proxy: StoreProxy
) -> None:
    proxy.inject(CUT)
    with pytest.raises(StoreUnreachableError):
        place.check_creation()
    proxy.heal()
    proxy.inject(NO_CONDITIONS)
    with pytest.raises(ConfigurationError, match="ignores If-None-Match"):
        place.check_creation()


def test_a_probe_that_may_not_be_deleted_disturbs_nobody(state: StatePlace, place: Place, proxy: StoreProxy) -> None:
    from gapless_archive.catalog.catalog import regions, topics  # noqa: PLC0415

    proxy.inject(Fault(status=403, code="AccessDenied"), "DELETE")
    with state:
        assert state.head() is None
    assert [key for key in place.keys("") if PROBES_FOLDER in key]
    archived(place, {0: (0, 10)})
    assert (regions(place), topics(place, "r")) == (["r"], ["t"])


def test_probes_at_the_same_time_do_not_disturb_each_other(store: ObjectStore, tmp_path: Path) -> None:
    together, failures = threading.Barrier(4, timeout=30), list[Exception]()

    def probe(place: Place) -> None:
        together.wait()
        try:
            place.check_creation()
        except Exception as error:  # noqa: BLE001 -- reported by the assertion
            failures.append(error)

    with StoreProxy(store) as one, StoreProxy(store) as two:
        address = parse_place(f"s3://{BUCKET}/{tmp_path.name}")
        places = [open_place(address, access_to(store, proxy, tmp_path)) for proxy in (one, two, one, two)]
        threads = [threading.Thread(target=probe, args=[place]) for place in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(puts(proxy)) for proxy in (one, two)] == [2, 2]
    assert failures == []
    assert not [key for key in store.keys(BUCKET) if tmp_path.name in key]


@pytest.mark.parametrize("fault", LOST_ANSWERS)
def test_a_state_whose_answer_was_lost_is_known_for_ones_own(
    state: StatePlace, proxy: StoreProxy, fault: Fault
) -> None:
    for generation in (1, 2):  # a new head, and one that is replaced
        rule = proxy.inject(fault, "PUT", "state.json", times=1)
        with state:
            state.head()
            head = commit(state, generation)
            assert state.head() == head
        assert rule.met == 1


def test_of_two_audits_one_changes_the_state_also_if_an_answer_was_lost(
    state: StatePlace, store: ObjectStore, proxy: StoreProxy, tmp_path: Path
) -> None:
    other = state_place.open_place(ObjectAddress(BUCKET, tmp_path.name), access_to(store, proxy, tmp_path))
    with state, other:
        state.head()
        other.head()
        head = commit(other, 1)
        proxy.inject(LOST_ANSWER, "PUT", "state.json", times=1)
        with pytest.raises(StateError, match="Another audit has changed the state"):
            commit(state, 1)
        assert other.head() == head


@pytest.mark.parametrize("fault", LOST_ANSWERS)
def test_a_hold_whose_answer_was_lost_is_set_once(place: Place, proxy: StoreProxy, fault: Fault) -> None:
    archived(place, {0: (0, 10)})
    proxy.inject(fault, "PUT", "/chain/", times=1)
    state = chain(place).update(lambda _: HOLD)
    assert (state.sequence, state.is_held) == (2, True)
    assert chain(place).load().sequence == 2


def test_a_file_of_a_folder_that_exists_is_refused_unless_it_is_ones_own(tmp_path: Path) -> None:
    place = open_place(parse_place(str(tmp_path)), S3Access())
    assert place.create("a/b", b"ours")
    assert place.create("a/b", b"ours")
    assert not place.create("a/b", b"another")
    assert place.read("a/b") == b"ours"
