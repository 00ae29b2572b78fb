"""The watches, which Kopf runs: every change of a relevant object is handed on.

Must not know what follows from a change. Of Kopf only ``on.event`` is used: handlers for creation, update or deletion
and timers would write annotations and finalizers into users' objects. `service` runs the periodic tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import kopf

from gapless_operator.shell.api.transport import is_in_pod

if TYPE_CHECKING:
    from gapless_operator.shell.api.kinds import Kind
    from gapless_operator.shell.cache.store import Body

_SERVER_SECONDS, _CLIENT_SECONDS = 300, 310
"""The server ends a watch before the client times out, so that an idle watch is not mistaken for a silent one."""
_PAGE_SIZE = 25
"""The initial list of a watch is paginated, so that not all bundles are in memory at once."""
_IDLE_SECONDS = 0.05
"""How long Kopf keeps the last body of an object after it was handed on."""
_LOGIN_SECONDS = 2.0
"""The pause before another login."""


class _Backoffs:
    """Pauses between attempts to reach the API server: growing and endless, as an outage must not end the operator.

    Kopf iterates over it again for each request.
    """

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.5, 1, 2), itertools.repeat(5))


class Watches:
    """The watches of some kinds in some namespaces, in a thread with an event loop of its own."""

    def __init__(
        self,
        kinds: Collection[Kind],
        namespaces: Collection[str],
        *,
        on_change: Callable[[Kind, str | None, Body], None],
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        """Prepare them.

        Args:
            kinds: to watch.
            namespaces: where; none for the whole cluster.
            on_change: called in the thread of the watches with the kind, the type of the event (ADDED, MODIFIED,
                DELETED, or ``None`` for an object of the initial list), and the object.
            on_end: called there when the watches have ended, with the error unless `stop` was called.
        """
        self._namespaces = tuple(namespaces)
        self._on_change, self._on_end = on_change, on_end
        self._stop = threading.Event()
        self._registry = kopf.OperatorRegistry()
        kopf.on.login(registry=self._registry)(_logins())
        for kind in kinds:
            self._watch(kind)
        self._settings = _settings(kinds, scan=not namespaces)
        self._thread = threading.Thread(target=self._run, name="watches", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; waits a few seconds for open streams."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _watch(self, kind: Kind) -> None:
        async def handle(*, event: Any, **_: Any) -> None:
            body = dict(event["object"])
            body.setdefault("apiVersion", kind.api_version)
            body.setdefault("kind", kind.name)
            self._on_change(kind, event["type"], body)

        where = (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
        kopf.on.event(*where, id=f"watch-{kind.plural}", registry=self._registry)(handle)

    def _run(self) -> None:
        problem: BaseException | None = None
        try:
            with contextlib.suppress(asyncio.CancelledError):  # Kopf ends with it when it is stopped.
                asyncio.run(self._operate())
        except BaseException as error:  # noqa: BLE001 -- the thread must not end silently
            problem = error
        self._on_end(None if self._stop.is_set() else problem or RuntimeError("the watches ended unexpectedly"))

    async def _operate(self) -> None:
        asyncio.get_running_loop().set_exception_handler(report_loop_error(self._stop.is_set))
        await kopf.operator(
            registry=self._registry,
            settings=self._settings,
            standalone=True,
            # Kopf would look up the name of the user, and an ID that the cluster has assigned has none.
            identity=cast("Any", "gapless-operator"),
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            stop_flag=self._stop,
        )


def report_loop_error(is_stopping: Callable[[], bool]) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return an exception handler for an event loop: it reports all errors but those of streams closed at the stop.

    Kopf leaves the nested generators of open streams to asyncio, which closes them all at once: the outer one then
    finds the inner one already closing. Nothing is lost, and a traceback in the log would mislead.
    """

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not (is_stopping() and "asyncgen" in context):
            loop.default_exception_handler(context)

    return report


def _logins() -> Callable[..., Coroutine[Any, Any, kopf.ConnectionInfo | None]]:
    """Return what logs in for Kopf, which calls it again when the API server has refused the credentials.

    The watches would end if Kopf got equal credentials again. But the token of a pod may be replaced a while after it
    has ended, and an API server that starts may refuse a good one: so each login differs, and follows after a pause.
    """
    count = 0

    async def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        nonlocal count
        if count:
            await asyncio.sleep(_LOGIN_SECONDS)
        count += 1
        # A pod is given an address of the API server, so that it needs no DNS.
        found = kopf.login_via_client(**arguments) if is_in_pod() else kopf.login_with_kubeconfig(**arguments)
        return None if found is None else replace(found, priority=count)

    return login


def _settings(kinds: Collection[Kind], *, scan: bool) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    # Without permissions on the whole cluster, Kopf cannot detect new namespaces and kinds; `service` lists them.
    settings.scanning.disabled = not scan
    settings.watching.server_timeout = _SERVER_SECONDS
    settings.watching.client_timeout = _CLIENT_SECONDS
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = _PAGE_SIZE
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 60
    settings.networking.error_backoffs = _Backoffs()
    settings.queueing.idle_timeout = _IDLE_SECONDS
    settings.queueing.exit_timeout = 0.2  # Handlers only hand changes on.
    settings.process.ultimate_exiting_timeout = None
    for kind in kinds:
        if kind.selector:
            where = (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
            settings.watching.label_selectors[where] = kind.selector
    return settings
