"""Owns a pytest session in which many changes of one module are tried; must not know how changes are made or shown.

The test files are imported once. Each change is tried in a fork: the functions' code is exchanged in place, so that
whoever imported them before has the changed ones, and the tests that run the changed line are run until one fails.
What is evaluated while a module is imported cannot be exchanged so: for that, `noticed_at_import` loads module and
tests in a process that has neither.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import math
import os
import signal
import sys
import threading
import time
from importlib.machinery import SourceFileLoader
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis
import pytest

from mutate.children import forked, scratch_folder, silence
from mutate.mutations import Owner

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from pathlib import Path

    from mutate.mutations import Mutation

_QUIET = ("-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=sys", "-o", "timeout=0")


class Reach(NamedTuple):
    """One test: how much CPU time it takes, and which lines of the module it runs."""

    node: str
    seconds: float
    lines: frozenset[int]

    def runs(self, mutation: Mutation) -> bool:
        """Whether the test runs the statement that is changed."""
        first, last = mutation.statement
        return any(line in self.lines for line in range(first, last + 1))


class Subject(NamedTuple):
    """The module that is changed."""

    name: str
    source: Path
    tree: ast.Module


def tame_hypothesis() -> None:
    """Let the same inputs come each time, none be kept, and no failure be simplified."""
    settings = hypothesis.settings
    settings.register_profile(
        "mutate",
        derandomize=True,
        database=None,
        max_examples=50,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    settings.load_profile("mutate")
    # The conftest files load profiles of their own.
    type.__setattr__(settings, "load_profile", staticmethod(lambda _name: None))


def noticed_in_session(subject: Subject, tries: Sequence[Mutation], tests: Sequence[Path]) -> Iterator[Any]:
    """Yield the list of tests that fail before any change, the reaches, then (number, noticed) of changed functions."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(reading)
            silence()
            with os.fdopen(writing, "w") as stream:
                pytest.main([*_QUIET, *map(str, tests)], plugins=[_Session(subject, tries, stream)])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        for line in stream:
            yield json.loads(line)
    os.waitpid(child, 0)


def noticed_at_import(subject: Subject, mutation: Mutation, reaches: Sequence[Reach]) -> bool:
    """Whether a test fails when module and tests are imported with the change."""

    def attempt() -> bytes:
        silence()
        mutation.apply()
        sys.meta_path.insert(0, _Finder(subject))
        # Whole files: what a table of the module names may stand in the names of tests.
        files = sorted({reach.node.partition("::")[0] for reach in reaches})
        passed = pytest.main([*_QUIET, "-x", f"--basetemp={folder}/pytest", *files]) == pytest.ExitCode.OK
        return b"survived" if passed else b"noticed"

    with scratch_folder() as folder:
        return forked(attempt, *_limits(10 + sum(reach.seconds for reach in reaches))) != b"survived"


class _Session:
    """A pytest plugin that takes the place of the test run."""

    def __init__(self, subject: Subject, tries: Sequence[Mutation], stream: Any) -> None:
        self._subject = subject
        self._source = str(subject.source)
        self._tries = tries
        self._stream = stream

    def _put(self, what: Any) -> None:
        self._stream.write(json.dumps(what) + "\n")
        self._stream.flush()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        answer = forked(lambda: json.dumps(self._reaches(session)).encode())
        if answer is None:
            return True
        found, failed = json.loads(answer)
        self._put(failed)
        self._put(found)
        if failed:
            return True
        reaches = [Reach(node, seconds, frozenset(lines)) for node, seconds, lines in found]
        items = {item.nodeid: item for item in session.items}
        functions = _functions_of(self._source)
        for number, mutation in enumerate(self._tries):
            running = sorted((reach for reach in reaches if reach.runs(mutation)), key=lambda reach: reach.seconds)
            if running and mutation.owner in functions:
                targets = functions[mutation.owner]
                self._put((number, self._is_noticed(session, mutation, targets, running, items)))
        return True

    def _reaches(self, session: pytest.Session) -> tuple[list[tuple[str, float, list[int]]], list[str]]:
        reaches, failed = [], []
        with scratch_folder() as folder:
            _use(session.config, folder)
            for item, following in _with_next(session.items):
                lines: set[int] = set()
                began = time.process_time()
                with _traced(self._source, lines):
                    _run(item, following)
                if lines:
                    reaches.append((item.nodeid, time.process_time() - began, sorted(lines)))
                if session.testsfailed:
                    failed.append(item.nodeid)
                    session.testsfailed = 0
        return reaches, failed

    def _is_noticed(
        self,
        session: pytest.Session,
        mutation: Mutation,
        targets: Sequence[FunctionType],
        running: Sequence[Reach],
        items: dict[str, pytest.Item],
    ) -> bool:
        def attempt() -> bytes:
            mutation.apply()
            if not _exchange(compile(self._subject.tree, self._source, "exec"), mutation.owner, targets):
                return b"noticed"  # It does not compile to a function of the same form: a return where yields were.
            _use(session.config, folder)
            seconds = {reach.node: reach.seconds for reach in running}
            for item, following in _with_next([items[reach.node] for reach in running]):
                # A loop without end: the default of SIGPROF ends the process. The time was taken while it was traced.
                signal.setitimer(signal.ITIMER_PROF, 3 + 1.5 * seconds[item.nodeid])
                _run(item, following)
                if session.testsfailed:
                    return b"noticed"
            return b"survived"

        with scratch_folder() as folder:
            return forked(attempt, *_limits(sum(reach.seconds for reach in running))) != b"survived"


def _limits(seconds: float) -> tuple[int, float]:
    """CPU and wall seconds for what takes `seconds` of CPU: generous, for the machine may be busy."""
    return math.ceil(5 + 5 * seconds), 60 + 30 * seconds


def _use(config: pytest.Config, folder: Path) -> None:
    """Let temporary folders be made in `folder`."""
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._given_basetemp, factory._basetemp = folder / "pytest", None


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    yield from zip(items, [*items[1:], None], strict=True)


def _run(item: pytest.Item, following: pytest.Item | None) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


@contextlib.contextmanager
def _traced(source: str, lines: set[int]) -> Iterator[None]:
    """Gather the lines of a file that run, in all threads."""

    unseen: dict[CodeType, set[int]] = {}

    def local(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            lines.add(frame.f_lineno)
            left = unseen[frame.f_code]
            left.discard(frame.f_lineno)
            if not left:  # All is known of this function: what is not traced any more costs no time.
                return None
        return local

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename != source:
            return None
        if code not in unseen:
            unseen[code] = {line for _, _, line in code.co_lines() if line is not None and line != frame.f_lineno}
            lines.add(frame.f_lineno)
        return local if unseen[code] else None

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)


def _functions_of(source: str) -> dict[Owner | None, list[FunctionType]]:
    """Every function of a file that is alive, whatever decorates it, by its code's name and line."""
    found: dict[Owner | None, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename == source:
            code = one.__code__
            found.setdefault(_owner(code), []).append(one)
    return found


def _owner(code: CodeType) -> Owner:
    return Owner(code.co_qualname, code.co_firstlineno)


def _exchange(module: CodeType, owner: Owner | None, targets: Sequence[FunctionType]) -> bool:
    """Give the functions their code from a module that was compiled anew."""
    for code in _codes(module):
        if _owner(code) == owner:
            try:
                for target in targets:
                    target.__code__ = code
            except ValueError:  # Another number of variables from around it.
                return False
            return True
    return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class _Finder:
    """Finds the one module with its change, before everybody else looks for it."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def find_spec(self, name: str, _path: object, _target: object = None) -> ModuleSpec | None:
        if name != self._subject.name:
            return None
        loader = _Loader(name, str(self._subject.source))
        loader.tree = self._subject.tree
        return importlib.util.spec_from_file_location(name, self._subject.source, loader=loader)


class _Loader(SourceFileLoader):
    tree: ast.Module

    def get_code(self, _fullname: str) -> CodeType:
        return compile(self.tree, self.path, "exec")
