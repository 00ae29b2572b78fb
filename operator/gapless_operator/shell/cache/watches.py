"""Owns the watches, which Kopf runs: every change of an object that matters is handed on, nothing is decided here.

Must not know what anybody does with a change. Of Kopf only ``on.event`` is used. Handlers for creation, update or
deletion would write annotations and finalizers into users' objects, and so would timers; time is `service`'s business.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import kopf

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from gapless_operator.shell.api.kinds import Kind
    from gapless_operator.shell.cache.store import Body

_SERVER_SECONDS, _CLIENT_SECONDS = 300, 310
"""A watch ends by itself before the client gives it up, so that a silent one is never taken for an idle one."""
_OBJECTS_OF_A_PAGE = 25
"""What is listed when a watch begins comes in pages, so that not all bundles are in memory at once."""
_IDLE_SECONDS = 0.05
"""Kopf keeps the last body of an object for so long after it was handed on."""


class _Backoffs:
    """Pauses between tries to reach the API server: growing, and without end, for an outage must not end the operator.

    Kopf takes the pauses again for each request, so this is iterated more than once.
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
        changed: Callable[[Kind, str | None, Body], None],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """Prepare them.

        Args:
            kinds: to watch.
            namespaces: where; none for the whole cluster.
            changed: called in the watches' thread with the kind, what happened (ADDED, MODIFIED, DELETED, or ``None``
                for an object that was there), and the object.
            ended: called there when the watches have ended, with the reason if they did so by themselves.
        """
        self._namespaces = tuple(namespaces)
        self._changed, self._ended = changed, ended
        self._stop = threading.Event()
        self._registry = kopf.OperatorRegistry()
        kopf.on.login(registry=self._registry)(_login)
        for kind in kinds:
            self._watch(kind)
        self._settings = _settings(kinds, scan=not namespaces)
        self._thread = threading.Thread(target=self._run, name="watches", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
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
            self._changed(kind, event["type"], body)

        where = (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
        kopf.on.event(*where, id=f"watch-{kind.plural}", registry=self._registry)(handle)

    def _run(self) -> None:
        problem: BaseException | None = None
        try:
            kopf.run(
                registry=self._registry,
                settings=self._settings,
                standalone=True,
                clusterwide=not self._namespaces,
                namespaces=self._namespaces,
                stop_flag=self._stop,
            )
        except BaseException as error:  # noqa: BLE001 -- the thread must not end without a word
            problem = error
        self._ended(None if self._stop.is_set() else problem or RuntimeError("the watches ended by themselves"))


def _login(**arguments: Any) -> Any:
    """As the official client does it: the pod's account, else KUBECONFIG."""
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)


def _settings(kinds: Collection[Kind], *, scan: bool) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    # Without rights on the whole cluster, Kopf can see neither new namespaces nor new kinds; `service` lists them.
    settings.scanning.disabled = not scan
    settings.watching.server_timeout = _SERVER_SECONDS
    settings.watching.client_timeout = _CLIENT_SECONDS
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = _OBJECTS_OF_A_PAGE
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 60
    settings.networking.error_backoffs = _Backoffs()
    settings.queueing.idle_timeout = _IDLE_SECONDS
    settings.queueing.exit_timeout = 0.2  # handlers only hand on
    settings.process.ultimate_exiting_timeout = None
    for kind in kinds:
        if kind.selector:
            where = (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
            settings.watching.label_selectors[where] = kind.selector
    return settings
