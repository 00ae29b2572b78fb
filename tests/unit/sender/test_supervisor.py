"""The supervisor of workers, alone: every event in every state that any order of events can reach."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from gapless_api.base.errors import ConfigurationError, LinkError, SourceStalledError, StoppedError
from gapless_api.base.exit_codes import ExitCode
from gapless_sender.workers.supervisor import (
    Action,
    AnyEvent,
    Command,
    Event,
    Failed,
    Phase,
    Supervisor,
    WorkerDied,
    WorkerFinished,
    WorkerPaused,
    WorkerReady,
    WorkerState,
)

LINK = LinkError("the link is away")
KILLED, FAILED, BROKEN = -9, 1, None
HOLDERS = {WorkerState.SENDING, WorkerState.PAUSING}
"""Lives in which a worker may be sending events."""


def events(workers: int) -> Iterator[AnyEvent]:
    for worker in range(workers):
        yield from (WorkerReady(worker, has_work=True), WorkerReady(worker, has_work=False), WorkerPaused(worker))
        yield from (WorkerFinished(worker), WorkerFinished(worker, LINK))
        yield from (WorkerDied(worker, status) for status in (KILLED, FAILED, BROKEN))
    yield Failed(LINK)
    yield from Event


def copied(supervisor: Supervisor) -> Supervisor:
    found = copy.copy(supervisor)
    found.states, found.problems = list(supervisor.states), list(supervisor.problems)
    return found


State = tuple[object, ...]


def state_of(supervisor: Supervisor) -> State:
    """All that decides what follows; how many problems there are beyond the first decides nothing."""
    hidden = (supervisor._has_work, supervisor._stop_requested)
    return supervisor.phase, tuple(supervisor.states), bool(supervisor.problems), supervisor.start_announced, hidden


def reachable(workers: int, *, encrypts: bool) -> dict[State, Supervisor]:
    first = Supervisor(workers, encrypts=encrypts)
    found, unseen = {state_of(first): first}, [first]
    while unseen:
        supervisor = unseen.pop()
        for event in events(workers):
            following = copied(supervisor)
            following.handle(event)
            following.problems = following.problems[:1]
            if found.setdefault(state_of(following), following) is following:
                unseen.append(following)
    return found


@pytest.fixture(scope="module", params=[(1, True), (2, True), (3, True), (2, False)], ids=str)
def states(request: pytest.FixtureRequest) -> list[Supervisor]:
    workers, encrypts = request.param
    return list(reachable(workers, encrypts=encrypts).values())


Transition = tuple[Supervisor, "AnyEvent", Supervisor, list[Command]]
"""The state before, what happened, the state after, and what is to be done."""


@pytest.fixture(scope="module")
def transitions(states: list[Supervisor]) -> list[Transition]:
    """Every event in every state."""
    found = []
    for before in states:
        for event in events(len(before.states)):
            after = copied(before)
            commands = after.handle(event)
            found.append((before, event, after, commands))
    return found


def test_every_phase_and_every_life_is_reached(states: list[Supervisor]) -> None:
    phases = {supervisor.phase for supervisor in states}
    encrypts = states[0]._encrypts
    assert phases == set(Phase) - (set() if encrypts else {Phase.ANNOUNCING, Phase.PAUSING})
    assert {life for supervisor in states for life in supervisor.states} >= set(WorkerState) - {
        WorkerState.PAUSED,
        WorkerState.PAUSING,
    }


def test_workers_are_told_only_what_they_can_do(transitions: list[Transition]) -> None:
    allowed = {
        Action.GO: {WorkerState.READY, WorkerState.PAUSED},
        Action.PAUSE: {WorkerState.SENDING},
        Action.TERMINATE: set(WorkerState) - {WorkerState.KILLED, WorkerState.FINISHED, WorkerState.DEAD},
        Action.KILL: set(WorkerState) - {WorkerState.KILLED, WorkerState.FINISHED, WorkerState.DEAD},
    }
    for before, event, _, commands in transitions:
        states = list(before.states)
        if isinstance(event, WorkerReady) and states[event.worker] is WorkerState.STARTING:
            states[event.worker] = WorkerState.READY
        if isinstance(event, WorkerPaused) and states[event.worker] is WorkerState.PAUSING:
            states[event.worker] = WorkerState.PAUSED
        for action, worker in commands:
            if worker is not None and not (action is Action.KILL and isinstance(event, WorkerDied)):
                assert states[worker] in allowed[action], (before.phase, before.states, event, commands)


def test_nobody_sends_while_the_receiver_is_given_a_key(transitions: list[Transition]) -> None:
    for before, event, after, commands in transitions:
        if Command(Action.ANNOUNCE_KEY) in commands:
            assert after.phase is Phase.ANNOUNCING, (before.phase, event)
        if after.phase is Phase.ANNOUNCING:
            assert not HOLDERS & set(after.states), (before.phase, before.states, event)


def test_no_packet_and_no_key_leaves_before_every_worker_has_planned(transitions: list[Transition]) -> None:
    for before, event, after, commands in transitions:
        if {action for action, _ in commands} & {Action.ANNOUNCE_START, Action.ANNOUNCE_KEY, Action.GO}:
            assert WorkerState.STARTING not in after.states, (before.states, event)
        if Command(Action.ANNOUNCE_START) in commands:
            assert before.phase is Phase.STARTING
            assert not before.start_announced
        if before.phase is Phase.STARTING and not after.start_announced:
            assert Command(Action.ANNOUNCE_KEY) not in commands


def test_nothing_begins_any_more_once_the_end_has_begun(transitions: list[Transition]) -> None:
    for before, event, after, commands in transitions:
        if before.phase in {Phase.STOPPING, Phase.ENDED}:
            assert {action for action, _ in commands} <= {Action.KILL}, (before.states, event)
            assert after.phase in {before.phase, Phase.ENDED}


def test_a_problem_a_death_and_a_signal_stop_all_the_others_once(transitions: list[Transition]) -> None:
    for before, event, after, commands in transitions:
        concerned = event.worker if isinstance(event, WorkerDied | WorkerFinished) else None
        stops = (
            isinstance(event, Failed | WorkerDied)
            or (isinstance(event, WorkerFinished) and event.problem is not None)
            or (event is Event.STOP_REQUESTED and not before._stop_requested)
        )
        if concerned is not None and before.states[concerned].has_ended:
            stops = False
        told = [command.worker for command in commands if command.action is Action.TERMINATE]
        others = [n for n, life in enumerate(before.states) if not life.has_ended and n != concerned]
        if stops and before.phase not in {Phase.STOPPING, Phase.ENDED}:
            assert told == others, (before.phase, before.states, event)
            assert after.phase in {Phase.STOPPING, Phase.ENDED}
        else:
            assert told == [], (before.phase, before.states, event)


def test_a_second_signal_and_the_end_of_patience_kill_whoever_is_left(transitions: list[Transition]) -> None:
    for before, event, _, commands in transitions:
        second = event is Event.STOP_REQUESTED and before._stop_requested
        late = event is Event.GRACE_PERIOD_OVER and before.phase is Phase.STOPPING
        killed = [command.worker for command in commands if command.action is Action.KILL]
        alive = [n for n, life in enumerate(before.states) if not life.has_ended and life is not WorkerState.KILLED]
        if before.phase is not Phase.ENDED and (second or late):
            assert killed == alive, (before.phase, before.states, event)
        elif not isinstance(event, WorkerDied):
            assert killed == []


def test_a_worker_whose_pipe_broke_is_killed_for_it_might_still_send(transitions: list[Transition]) -> None:
    for before, event, _, commands in transitions:
        if isinstance(event, WorkerDied) and before.phase is not Phase.ENDED:
            lost = event.status is None and not before.states[event.worker].has_ended
            assert (Command(Action.KILL, event.worker) in commands) == lost, (before.states, event)


def test_it_has_ended_exactly_when_nothing_more_can_come_of_any_worker(states: list[Supervisor]) -> None:
    for supervisor in states:
        assert (supervisor.phase is Phase.ENDED) == all(life.has_ended for life in supervisor.states)


def test_every_state_ends_by_a_signal_and_the_death_of_what_is_left(states: list[Supervisor]) -> None:
    for before in states:
        supervisor = copied(before)
        killed = {
            worker
            for event in (Event.STOP_REQUESTED, Event.GRACE_PERIOD_OVER)
            for _, worker in supervisor.handle(event)
        }
        assert {
            n for n, life in enumerate(before.states) if not life.has_ended and life is not WorkerState.KILLED
        } <= killed
        for worker in range(len(supervisor.states)):
            supervisor.handle(WorkerDied(worker, KILLED))
        assert supervisor.phase is Phase.ENDED
        asked = StoppedError("asked", by_terminal=True)
        found = supervisor.outcome(asked)
        if supervisor.is_complete:
            assert found is None
        elif before.problems and isinstance(before.problems[0], LinkError):
            assert isinstance(found, LinkError)
        else:
            assert isinstance(found, StoppedError | LinkError)


def test_it_is_complete_only_if_every_worker_said_so_without_a_problem(states: list[Supervisor]) -> None:
    for supervisor in states:
        said = all(life is WorkerState.FINISHED for life in supervisor.states) and not supervisor.problems
        assert supervisor.is_complete == said
        if supervisor.is_complete:
            assert supervisor.phase is Phase.ENDED
            assert supervisor.outcome(None) is None
            assert supervisor.outcome(StoppedError("too late", by_terminal=False)) is None


def running(workers: int = 2) -> Supervisor:
    supervisor = Supervisor(workers, encrypts=True)
    for worker in range(workers):
        supervisor.handle(WorkerReady(worker, has_work=True))
    supervisor.handle(Event.KEY_ANNOUNCED)
    return supervisor


def test_a_resend_from_its_beginning_to_its_end() -> None:
    supervisor = Supervisor(2, encrypts=True)
    told: list[list[Command]] = [
        supervisor.handle(event)
        for event in (
            WorkerReady(1, has_work=False),
            WorkerReady(0, has_work=True),
            Event.KEY_ANNOUNCED,
            WorkerFinished(1),
            Event.KEY_DUE,
            WorkerPaused(0),
            Event.KEY_ANNOUNCED,
            WorkerFinished(0),
        )
    ]
    assert told == [
        [],
        [Command(Action.ANNOUNCE_START), Command(Action.ANNOUNCE_KEY)],
        [Command(Action.GO, 0), Command(Action.GO, 1)],
        [],
        [Command(Action.PAUSE, 0)],
        [Command(Action.ANNOUNCE_KEY)],
        [Command(Action.GO, 0)],
        [],
    ]
    assert (supervisor.phase, supervisor.is_complete, supervisor.start_announced) == (Phase.ENDED, True, True)


def test_without_anything_to_send_the_receiver_hears_nothing() -> None:
    supervisor = Supervisor(2, encrypts=True)
    supervisor.handle(WorkerReady(0, has_work=False))
    assert supervisor.handle(WorkerReady(1, has_work=False)) == [Command(Action.GO, 0), Command(Action.GO, 1)]
    assert not supervisor.start_announced


def test_a_worker_that_finishes_instead_of_pausing_does_not_hold_the_others_up() -> None:
    supervisor = running()
    supervisor.handle(Event.KEY_DUE)
    assert supervisor.handle(WorkerPaused(0)) == []
    assert supervisor.handle(WorkerFinished(1)) == [Command(Action.ANNOUNCE_KEY)]
    assert supervisor.handle(Event.KEY_ANNOUNCED) == [Command(Action.GO, 0)]


@pytest.mark.parametrize(
    ("status", "words"), [(-9, r"Worker process 1 .*signal 9"), (3, "exit code 3"), (0, "exit code 0"), (None, "pipe")]
)
def test_a_death_is_said_with_its_cause(status: int | None, words: str) -> None:
    supervisor = running()
    supervisor.handle(WorkerDied(1, status))
    supervisor.handle(WorkerFinished(0, StoppedError("Stopped by SIGTERM.", by_terminal=False)))
    assert supervisor.phase is Phase.ENDED
    found = supervisor.outcome(None)
    assert isinstance(found, StoppedError)
    with pytest.raises(StoppedError, match=words):
        raise found


def test_the_death_of_a_worker_that_we_killed_is_no_problem_of_its_own() -> None:
    supervisor = running()
    supervisor.handle(Event.STOP_REQUESTED)
    supervisor.handle(Event.STOP_REQUESTED)
    for worker in range(2):
        supervisor.handle(WorkerDied(worker, KILLED))
    asked = StoppedError("asked", by_terminal=True)
    assert supervisor.problems == []
    assert supervisor.outcome(asked) is asked


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_worst_problem_decides_whatever_came_first(order: tuple[int, ...]) -> None:
    told = [ConfigurationError("settings"), LINK, SourceStalledError("Kafka")]
    supervisor = running(3)
    for worker, problem in enumerate(order):
        supervisor.handle(WorkerFinished(worker, told[problem]))
    assert supervisor.outcome(None) is told[0]


def test_a_signal_to_us_is_what_ended_the_workers_whatever_they_saw() -> None:
    supervisor = running()
    supervisor.handle(Event.STOP_REQUESTED)
    for worker in range(2):
        supervisor.handle(WorkerFinished(worker, StoppedError("Stopped by SIGTERM.", by_terminal=False)))
    asked = StoppedError("Stopped by SIGINT.", by_terminal=True)
    found = supervisor.outcome(asked)
    assert found is asked
    assert asked.exit_code == ExitCode.INTERRUPTED
