"""A pytest session that tries many mutations of one module; must not know how mutations are made or shown.

The test files are imported once. Each mutation is tried in a fork: the functions' code objects are replaced in place,
so that existing references see the mutation, and the tests that run the mutated line are run until one fails. Code that
is evaluated at import cannot be replaced like this: for that, `is_detected_at_import` imports module and tests in a new
process.
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
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis
import pytest

from mutate.children import run_in_fork, scratch_folder, silence
from mutate.mutations import Mutation, Owner

if TYPE_CHECKING:
    import ast


_QUIET = ("-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist", "--capture=sys", "-o", "timeout=0")


class Reach(NamedTuple):
    """One test with its CPU time and the lines of the module that it runs."""

    node: str
    seconds: float
    lines: frozenset[int]

    def runs(self, mutation: Mutation) -> bool:
        """Whether the test runs the mutated statement."""
        first, last = mutation.statement
        return any(line in self.lines for line in range(first, last + 1))


class Subject(NamedTuple):
    """The mutated module."""

    name: str
    source: Path
    tree: ast.Module


def configure_hypothesis() -> None:
    """Make Hypothesis deterministic, without a database and without shrinking."""
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
    # The conftest files must not load their own profiles.
    type.__setattr__(settings, "load_profile", staticmethod(lambda _name: None))


def run_session(subject: Subject, mutations: Sequence[Mutation], tests: Sequence[Path]) -> Iterator[Any]:
    """Yield the tests that fail without a mutation, the reaches, then (number, is detected) for mutated functions."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(reading)
            silence()
            with os.fdopen(writing, "w") as stream:
                pytest.main([*_QUIET, *map(str, tests)], plugins=[_Session(subject, mutations, stream)])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        for line in stream:
            yield json.loads(line)
    os.waitpid(child, 0)


def is_detected_at_import(subject: Subject, mutation: Mutation, reaches: Sequence[Reach]) -> bool:
    """Whether a test fails when module and tests are imported with the mutation."""

    def attempt() -> bytes:
        silence()
        mutation.apply()
        sys.meta_path.insert(0, _Finder(subject))
        # Entire files, because parametrized tests can be named after values in the module.
        files = sorted({reach.node.partition("::")[0] for reach in reaches})
        passed = pytest.main([*_QUIET, "-x", f"--basetemp={folder}/pytest", *files]) == pytest.ExitCode.OK
        return b"survived" if passed else b"detected"

    with scratch_folder() as folder:
        return run_in_fork(attempt, *_limits(10 + sum(reach.seconds for reach in reaches))) != b"survived"


class _Session:
    """A pytest plugin that replaces the test run."""

    def __init__(self, subject: Subject, mutations: Sequence[Mutation], stream: Any) -> None:
        self._subject = subject
        self._source = str(subject.source)
        self._mutations = mutations
        self._stream = stream

    def _send(self, result: Any) -> None:
        self._stream.write(json.dumps(result) + "\n")
        self._stream.flush()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        answer = run_in_fork(lambda: json.dumps(self._measure(session)).encode())
        if answer is None:
            return True
        measured, failed = json.loads(answer)
        self._send(failed)
        self._send(measured)
        if failed:
            return True
        reaches = [Reach(node, seconds, frozenset(lines)) for node, seconds, lines in measured]
        items = {item.nodeid: item for item in session.items}
        functions = _functions_of(self._source)
        for number, mutation in enumerate(self._mutations):
            running = sorted((reach for reach in reaches if reach.runs(mutation)), key=lambda reach: reach.seconds)
            if running and mutation.owner in functions:
                targets = functions[mutation.owner]
                self._send((number, self._is_detected(session, mutation, targets, running, items)))
        return True

    def _measure(self, session: pytest.Session) -> tuple[list[tuple[str, float, list[int]]], list[str]]:
        """Run all tests without a mutation; return their reaches, and the tests that fail."""
        reaches, failed = [], []
        with scratch_folder() as folder:
            _set_temporary_folder(session.config, folder)
            for item, following in _with_next(session.items):
                lines: set[int] = set()
                began = time.process_time()
                with _trace_lines(self._source, lines):
                    _run(item, following)
                if lines:
                    reaches.append((item.nodeid, time.process_time() - began, sorted(lines)))
                if session.testsfailed:
                    failed.append(item.nodeid)
                    session.testsfailed = 0
        return reaches, failed

    def _is_detected(
        self,
        session: pytest.Session,
        mutation: Mutation,
        targets: Sequence[FunctionType],
        running: Sequence[Reach],
        items: dict[str, pytest.Item],
    ) -> bool:
        def attempt() -> bytes:
            mutation.apply()
            if not _replace_code(compile(self._subject.tree, self._source, "exec"), mutation.owner, targets):
                return b"detected"  # the code objects are incompatible, such as a return instead of yields
            _set_temporary_folder(session.config, folder)
            seconds = {reach.node: reach.seconds for reach in running}
            for item, following in _with_next([items[reach.node] for reach in running]):
                # Against endless loops: SIGPROF ends the process by default. The time was measured with tracing.
                signal.setitimer(signal.ITIMER_PROF, 3 + 1.5 * seconds[item.nodeid])
                _run(item, following)
                if session.testsfailed:
                    return b"detected"
            return b"survived"

        with scratch_folder() as folder:
            return run_in_fork(attempt, *_limits(sum(reach.seconds for reach in running))) != b"survived"


def _limits(seconds: float) -> tuple[int, float]:
    """Return generous limits in CPU and wall seconds for tests that take `seconds`; the machine may be busy."""
    return math.ceil(5 + 5 * seconds), 60 + 30 * seconds


def _set_temporary_folder(config: pytest.Config, folder: Path) -> None:
    """Let pytest create its temporary folders in `folder`."""
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._given_basetemp, factory._basetemp = folder / "pytest", None


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    yield from zip(items, [*items[1:], None], strict=True)


def _run(item: pytest.Item, following: pytest.Item | None) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


@contextlib.contextmanager
def _trace_lines(source: str, lines: set[int]) -> Iterator[None]:
    """Collect the lines of a file that are run, in all threads."""

    unseen: dict[CodeType, set[int]] = {}

    def local(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            lines.add(frame.f_lineno)
            remaining = unseen[frame.f_code]
            remaining.discard(frame.f_lineno)
            if not remaining:  # all lines of this function were seen, so it need not be traced any more
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
    """Return all function objects of a file, including decorated ones, by name and first line of their code."""
    functions: dict[Owner | None, list[FunctionType]] = {}
    for candidate in gc.get_objects():
        if isinstance(candidate, FunctionType) and candidate.__code__.co_filename == source:
            functions.setdefault(_owner(candidate.__code__), []).append(candidate)
    return functions


def _owner(code: CodeType) -> Owner:
    return Owner(code.co_qualname, code.co_firstlineno)


def _replace_code(module: CodeType, owner: Owner | None, targets: Sequence[FunctionType]) -> bool:
    """Replace the functions' code by that of the recompiled module; return False if it is incompatible."""
    for code in _codes(module):
        if _owner(code) == owner:
            try:
                for target in targets:
                    target.__code__ = code
            except ValueError:  # a different number of free variables
                return False
            return True
    return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class _Finder:
    """Imports the mutated module before the other finders."""

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
