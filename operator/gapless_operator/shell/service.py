"""The operator as a running process: list, watch, enqueue, resync, stop; must not know any rule of a reconciler.

One event loop runs the work queue and the periodic tasks; Kopf's watches run in a thread of their own and hand over
every change. The watches only make the operator fast. Correctness rests on reconciling every resource every ten seconds
and listing the cluster every minute, because watches can go silent and can miss deletions.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import ConfigurationError
from gapless_operator.shell.api.client import ClusterApi
from gapless_operator.shell.api.errors import ApiError
from gapless_operator.shell.api.kinds import CONFIG_MAP, OWNERS, POD, SPARK_APPLICATION, Kind
from gapless_operator.shell.api.server_clock import ServerClock
from gapless_operator.shell.cache.lists import Lists, RestoredClusterError
from gapless_operator.shell.cache.nodes import Nodes
from gapless_operator.shell.cache.pod_logs import PodLogs
from gapless_operator.shell.cache.relations import has_running
from gapless_operator.shell.cache.store import Body, Cache, Key, key_of
from gapless_operator.shell.cache.suspensions import Suspensions
from gapless_operator.shell.cache.watches import Watches
from gapless_operator.shell.controller import Controller
from gapless_operator.shell.enqueuer import Enqueuer
from gapless_operator.shell.health import Canary, Health
from gapless_operator.shell.http.endpoints import Endpoints, ProbeResult
from gapless_operator.shell.http.metrics_access import MetricsAccess
from gapless_operator.shell.http.serving_certificate import ServingCertificate
from gapless_operator.shell.http.worker_metrics import worker_pods
from gapless_operator.shell.leases import TRY_SECONDS, Leases
from gapless_operator.shell.metrics import Metrics
from gapless_operator.shell.observer import Observer
from gapless_operator.shell.queue import WorkQueue

if TYPE_CHECKING:
    from gapless_operator.common.settings import OperatorSettings

_LOG = structlog.get_logger("gapless.service")
_WORKERS = 6
_LOG_READERS = 8
"""Maximum number of nodes whose logs are read at the same time."""
_NODE_SECONDS = 10.0
"""How often the nodes of our pods are read; Kubernetes itself takes 40 seconds to mark one as not ready."""
_SUSPENSION_SECONDS = 3.0
"""How often the Namespaces of our resources are read: a suspended one must be at rest within 15 seconds."""
_PAUSE_SECONDS = 0.05
"""Pause between the batches of a resync."""
_CERTIFICATE_SECONDS = 600.0
"""How often the certificate of the metrics port is read again."""
_OWNER_KINDS = {kind.name: kind for kind in OWNERS}


class Service:
    """The operator."""

    def __init__(
        self,
        settings: OperatorSettings,
        *,
        connect: Callable[..., ClusterApi] = ClusterApi.connect,
        workers: int = _WORKERS,
    ) -> None:
        """Prepare it; nothing is sent yet.

        Args:
            settings: of the installation.
            connect: connects to the API server, as `ClusterApi.connect` does.
            workers: how many resources are reconciled at the same time; most of the time they wait for responses.

        Raises:
            ConfigurationError: no cluster is configured.
        """
        self._settings = settings
        self._cache = Cache()
        self._metrics = Metrics(queue_length=lambda: self._queue.depth)
        self._clock = ServerClock()
        self._api = connect(
            instance=settings.instance,
            clock=self._clock,
            on_request=lambda method: self._metrics.requests.labels(method).inc(),
        )
        self._nodes = Nodes(self._api)
        self._readers = ThreadPoolExecutor(max_workers=_LOG_READERS, thread_name_prefix="logs")
        self._logs = PodLogs(
            self._api,
            start=self._readers.submit,
            on_change=self._on_log_read,
            node=self._nodes.state,
            now=self._clock.now,
        )
        self._suspensions = Suspensions(self._api, everything=settings.suspend_all)
        self._observer = Observer(self._cache, self._api, self._logs, self._nodes.state)
        self._observer.suspension = self._suspensions.reason
        self._observer.jobs_only = settings.jobs_only_namespaces
        self._controller = Controller(
            settings,
            self._api,
            self._cache,
            self._observer,
            self._metrics,
            self._clock.now,
            on_change=self._on_own_change,
        )
        self._lists = Lists(
            self._api, self._cache, settings.namespaces, on_change=self._on_own_change, on_list=self._on_list
        )
        self._leases = Leases(
            self._api,
            settings.namespaces or (settings.own_namespace or "default",),
            settings.instance,
            release=settings.release,
        )
        self._metrics.export(self._cache, self._leases)
        self._endpoints = Endpoints()
        self._certificate = (
            ServingCertificate(settings.metrics_certificate)
            if settings.metrics_port and settings.metrics_authentication
            else None
        )
        self._queue = WorkQueue[Key](
            self._work,
            workers=workers,
            on_failure=self._on_failure,
            goes_first=lambda key: has_running(key, self._cache),
        )
        self._enqueuer = Enqueuer(self._cache, self._queue)
        self._watched: set[tuple[Kind, str | None]] = set()
        self._watches: list[Watches] = []
        self._canary = Canary(self._api, settings.instance)
        self._health = Health(settings, self._canary, lambda: self._metrics.age_seconds(CONFIG_MAP.name))
        self._stopped = asyncio.Event()
        self._problem: BaseException | None = None

    async def run(self) -> int:
        """Run until a signal; return the exit code."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(max_workers=_WORKERS + 2, thread_name_prefix="worker"))
        for name in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(name, self._stopped.set)
        await self._serve()
        _LOG.info("starting", namespaces=list(self._settings.namespaces) or "all", instance=self._settings.instance)
        work = asyncio.create_task(self._run_all())
        await self._stopped.wait()
        _LOG.info("stopping", reason=repr(self._problem) if self._problem else "signal")
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await self._queue.close()
        self._readers.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._leases.release)
        await asyncio.gather(*(asyncio.to_thread(watches.stop) for watches in self._watches))
        await self._endpoints.close()
        return 0 if self._problem is None else 1

    async def _serve(self) -> None:
        """Serve probes and metrics, from the start."""
        settings = self._settings
        if settings.health_port:
            await self._endpoints.serve_probes(settings.health_port, healthy=self._health.alive, ready=self._readiness)
        if settings.metrics_port:
            access = MetricsAccess(self._api) if settings.metrics_authentication else None
            security = self._certificate.context if self._certificate is not None else None
            await self._endpoints.serve_metrics(
                settings.metrics_port,
                self._metrics.registry,
                access=access,
                security=security,
                workers=lambda: worker_pods(
                    body for body in self._cache.all(POD) if self._leases.held(body["metadata"]["namespace"])
                ),
            )

    async def _run_all(self) -> None:
        """Acquire the Leases, list, watch, then run the periodic tasks."""
        try:
            await self._renew_leases()
            await self._first_list()
            self._start_watches()
            self._health.is_ready = True
            self._enqueuer.enqueue_all()
            _LOG.info("serving", kinds=sorted({kind.name for kind, _ in self._lists.served}))
            await asyncio.gather(
                self._repeat(self._settings.resync_seconds / 2, self._resync),
                self._repeat(self._settings.relist_seconds, self._list),
                self._repeat(self._settings.canary_seconds, self._touch_canary, at_once=True),
                self._repeat(_NODE_SECONDS, self._read_nodes, at_once=True),
                self._repeat(_SUSPENSION_SECONDS, self._read_suspensions),
                self._repeat(TRY_SECONDS, self._renew_leases),
                self._repeat(_CERTIFICATE_SECONDS, self._reload_certificate),
            )
        except RestoredClusterError as error:
            _LOG.warning("the cluster was restored", error=str(error))
            self._fail(error)
        except Exception as error:  # noqa: BLE001 -- after a defect here, the process must end, so that it is restarted
            _LOG.exception("failed")
            self._fail(error)

    def _fail(self, error: BaseException | None) -> None:
        self._problem = error
        self._stopped.set()

    async def _first_list(self) -> None:
        """List everything; wait until the API server and at least one CRD of ours are available."""
        while True:
            try:
                await self._list()
            except ApiError as error:
                _LOG.warning("waiting for the API server", error=str(error))
            else:
                if any(self._lists.serves(kind) for kind in OWNERS):
                    return
                _LOG.warning("waiting for CRDs: none is installed, or the service account may not list any")
            await asyncio.sleep(3)
            await self._renew_leases()

    async def _list(self, *kinds: Kind) -> None:
        """List `kinds` again, or all."""
        try:
            await (asyncio.to_thread(self._lists.list_all, kinds) if kinds else asyncio.to_thread(self._lists.list_all))
        finally:
            self._health.note_list()
            self._observer.spark_operator = self._lists.serves(SPARK_APPLICATION)
            self._logs.retain({body["metadata"]["uid"] for body in self._cache.all(POD)})

    def _on_list(self, kind: Kind) -> None:
        if kind is not CONFIG_MAP:  # The canary checks the watch of ConfigMaps.
            self._metrics.record_event(kind.name)

    def _start_watches(self) -> None:
        """Watch what is served; namespaces with the same kinds share one set of watches."""
        groups: dict[frozenset[Kind], list[str]] = {}
        for namespace in self._lists.namespaces:
            kinds = frozenset(kind for kind, scope in self._lists.served if scope == namespace)
            if kinds:
                groups.setdefault(kinds, []).extend([] if namespace is None else [namespace])
        for kinds, namespaces in groups.items():
            ordered = sorted(kinds, key=lambda kind: kind.name)
            self._watches.append(
                Watches(ordered, namespaces, on_change=self._on_watch_event, on_end=self._on_watches_ended)
            )
            self._watched |= {(kind, namespace) for kind in kinds for namespace in (namespaces or (None,))}
        self._metrics.record_event(CONFIG_MAP.name)
        for watches in self._watches:
            watches.start()

    def _on_watch_event(self, kind: Kind, event_type: str | None, body: Body) -> None:
        """Take a change from the thread of the watches."""
        self._metrics.record_event(kind.name)
        with contextlib.suppress(RuntimeError):  # The loop is closed while the operator stops.
            self._loop.call_soon_threadsafe(self._apply_change, event_type, body)

    def _on_own_change(self, body: Body) -> None:
        """Take a change of our own from the thread of a worker: a Diode's turns, for example, affect its Resends."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._enqueue_for, body)

    def _on_watches_ended(self, problem: BaseException | None) -> None:
        if problem is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._fail, problem)

    def _enqueue_for(self, body: Body) -> None:
        """Enqueue all resources that a change may affect, once the cluster was listed."""
        if self._health.is_ready:
            self._enqueuer.enqueue_for(body)

    def _apply_change(self, event_type: str | None, body: Body) -> None:
        is_news = self._cache.remove(body) if event_type == "DELETED" else self._cache.store(body)
        if is_news:
            self._enqueue_for(body)

    def _on_log_read(self, pod: Mapping[str, Any]) -> None:
        """Take a new log of a pod from the thread of its reader; it affects the owner of the pod."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._enqueuer.enqueue_owner, pod)

    async def _work(self, key: Key) -> float | None:
        if self._cache.get(_OWNER_KINDS[key.kind], key.namespace, key.name) is None:
            self._enqueuer.forget(key)
            self._observer.forget(key)
            return None
        kind = _OWNER_KINDS[key.kind]
        if not self._leases.held(key.namespace) or self._lists.missing(kind, key.namespace):
            return self._settings.resync_seconds
        return await asyncio.to_thread(self._controller.reconcile, key)

    def _on_failure(self, key: Key, error: Exception, again_after: float) -> None:
        self._metrics.errors.labels(type(error).__name__).inc()
        names, again = {"resource": key.kind, "namespace": key.namespace, "name": key.name}, round(again_after, 1)
        if isinstance(error, ApiError):
            _LOG.warning("reconcile failed", **names, error=str(error), again_after_seconds=again)
        else:
            _LOG.error("reconcile failed", **names, again_after_seconds=again, exc_info=error)

    async def _repeat(self, seconds: float, task: Callable[[], Awaitable[None]], *, at_once: bool = False) -> None:
        """Run a task periodically; a failure is logged, and the next run retries it."""
        while True:
            if not at_once:
                await asyncio.sleep(seconds)
            at_once = False
            try:
                await task()
            except ApiError as error:
                self._metrics.errors.labels(type(error).__name__).inc()
                _LOG.warning("a request to the API server failed", error=str(error))

    async def _resync(self) -> None:
        """Enqueue every resource, and list the kinds that are served but not watched.

        The resources are spread over half of the interval, so that changed ones need not wait behind all others.
        """
        self._health.beat()
        unwatched = dict.fromkeys(kind for kind, scope in self._lists.served if (kind, scope) not in self._watched)
        try:
            if unwatched:
                await self._list(*unwatched)
        finally:
            keys = [key_of(body) for kind in OWNERS for body in self._cache.all(kind)]
            batch_size = max(round(len(keys) * _PAUSE_SECONDS / (self._settings.resync_seconds / 2)), 1)
            for number, key in enumerate(keys, start=1):
                self._queue.add(key, has_changed=False)
                if number % batch_size == 0:
                    await asyncio.sleep(_PAUSE_SECONDS)

    async def _renew_leases(self) -> None:
        """Renew the Leases; after a namespace was acquired, list what its previous operator has done."""
        if await asyncio.to_thread(self._leases.renew) and self._health.is_ready:
            await self._list()
            self._enqueuer.enqueue_all()

    async def _reload_certificate(self) -> None:
        try:
            if self._certificate is not None:
                self._certificate.reload()
        except ConfigurationError as error:
            _LOG.warning("the metrics certificate was not reloaded; the previous one stays in use", error=str(error))

    async def _read_nodes(self) -> None:
        """Read the nodes of our pods and of the last preflight checks."""
        changed = await asyncio.to_thread(self._nodes.read, self._enqueuer.nodes())
        if changed:
            self._enqueuer.enqueue_for_nodes(changed)

    async def _read_suspensions(self) -> None:
        """Read the Namespaces of our resources; enqueue what is in those that were suspended or resumed."""
        for namespace in await asyncio.to_thread(self._suspensions.read, self._enqueuer.namespaces()):
            self._enqueuer.enqueue_namespace(namespace)

    async def _touch_canary(self) -> None:
        """Change the canary; the watch of ConfigMaps must deliver the change."""
        served = sorted(self._lists.served, key=str)
        listed = next((namespace for kind, namespace in served if kind is CONFIG_MAP), None)
        if namespace := listed or self._settings.own_namespace:
            await asyncio.to_thread(self._canary.touch, namespace)

    def _readiness(self) -> ProbeResult:
        """Return whether this operator serves every namespace, or waits for one of its own release that does."""
        if not self._health.is_ready:
            return self._health.alive()
        waiting, standby = self._leases.waiting_reason(), self._leases.standby_reason()
        if waiting:
            return HTTPStatus.SERVICE_UNAVAILABLE, waiting
        return HTTPStatus.OK, f"standby: {standby}" if standby else "ok"
