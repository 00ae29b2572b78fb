"""Listing the cluster: which kinds are served in which namespaces, and which objects have changed.

Must not know which resources a change affects. A list that is older than what was seen before it shows that the cluster
was restored from a backup: then nothing that this process remembers may be used. Only a 404 for a kind means that it is
not served; after any other error its state stays. A kind that could never be listed may have objects, so the kinds that
depend on it are not reconciled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import structlog

from gapless_operator.shell.api.errors import ApiError, ExpiredError, NotFoundError, RefusedError
from gapless_operator.shell.api.kinds import DEPENDENCIES, SPARK_APPLICATION, WATCHED, Kind
from gapless_operator.shell.cache.store import Body, Cache, version_number

if TYPE_CHECKING:
    from gapless_operator.shell.api.client import ClusterApi

_LOG = structlog.get_logger("gapless.lists")
_MAX_TRIES = 3
"""How often a list is restarted whose continue token has expired."""
Scope = tuple["Kind", str | None]
"""A kind and a namespace; ``None`` for all."""


class RestoredClusterError(Exception):
    """The cluster has returned to an earlier state, for example by a restore of etcd: start again without a cache."""


class Lists:
    """Lists kinds into the cache and knows which of them are served."""

    def __init__(
        self,
        api: ClusterApi,
        cache: Cache,
        namespaces: Collection[str],
        *,
        on_change: Callable[[Body], None],
        on_list: Callable[[Kind], None],
    ) -> None:
        """Prepare it.

        Args:
            api: to list with.
            cache: for the objects.
            namespaces: to list; none for the whole cluster.
            on_change: called for each object that is new, changed or deleted.
            on_list: called for each kind that was listed.
        """
        self._api, self._cache = api, cache
        self.namespaces: Sequence[str | None] = list(namespaces) or [None]
        self._on_change, self._on_list = on_change, on_list
        self.served: set[Scope] = set()
        """Kinds that exist and were listed, by namespace."""
        self._absent: set[Scope] = set()
        self._waiting: dict[Scope, str] = {}
        """Why a kind of ours is not reconciled."""

    def list_all(self, kinds: Collection[Kind] = WATCHED) -> None:
        """List `kinds`; a failure of one does not affect the others. Blocks.

        Raises:
            ApiError: the first temporary error; all other kinds were listed.
            RestoredClusterError: the cluster is in an earlier state than the cache.
        """
        problem: ApiError | None = None
        refusals: dict[Scope, str] = {}
        for kind in kinds:
            for namespace in self.namespaces:
                scope = (kind, namespace)
                try:
                    self._list(kind, namespace)
                except NotFoundError as error:
                    self._mark_absent(scope, str(error))
                except RefusedError as error:
                    # Permissions are checked before existence: only discovery shows whether the kind exists.
                    if scope not in self.served and not self._api.serves(kind):
                        self._mark_absent(scope, str(error))
                    else:
                        refusals[scope] = str(error)
                except ApiError as error:
                    refusals[scope] = str(error)
                    # The CRD of another project may be broken for long, for example by its conversion webhook.
                    if kind is not SPARK_APPLICATION:
                        problem = problem or error
                else:
                    self._on_list(kind)
        self._log_changes(refusals)
        if problem is not None:
            raise problem

    def missing(self, kind: Kind, namespace: str) -> str:
        """Return why objects of a `kind` cannot be reconciled in a `namespace`; empty when they can."""
        for scope in ((kind, namespace), (kind, None)):
            if scope in self._waiting:
                return self._waiting[scope]
        return ""

    def serves(self, kind: Kind) -> bool:
        """Whether the cluster has a kind, in whatever namespace."""
        return any(served is kind for served, _ in self.served)

    def _list(self, kind: Kind, namespace: str | None) -> None:
        for tries_left in reversed(range(_MAX_TRIES)):
            present, version = set[str](), ""
            newest = self._cache.newest(kind, namespace)
            is_known = self._cache.knows if (kind, namespace) in self.served else None
            try:
                for page in self._api.pages(kind, namespace, is_known=is_known):
                    present |= page.present
                    version = page.version
                    _check_version(kind, version, newest)
                    for body in page.bodies:
                        if self._cache.store(body):
                            self._on_change(body)
            except ExpiredError:
                if not tries_left:
                    raise
                continue
            break
        for body in self._cache.prune(kind, namespace, present, version):
            self._on_change(body)
        self._absent.discard((kind, namespace))
        self.served.add((kind, namespace))

    def _mark_absent(self, scope: Scope, reason: str) -> None:
        """Record that a kind does not exist."""
        if scope in self.served:
            _LOG.warning("no longer served", kind=scope[0].name, namespace=scope[1], error=reason)
        self.served.discard(scope)
        self._absent.add(scope)

    def _log_changes(self, refusals: dict[Scope, str]) -> None:
        """Log which kinds could not be listed, and which are no longer, or again, reconciled because of that."""
        for scope, reason in refusals.items():
            if scope in self.served:
                _LOG.warning("list failed; cache stays in use", kind=scope[0].name, namespace=scope[1], error=reason)
        waiting: dict[Scope, str] = {}
        for owner, namespace in self.served:
            for kind in DEPENDENCIES.get(owner, ()):
                scope = (kind, namespace)
                if scope not in self.served and scope not in self._absent:
                    reason = refusals.get(scope) or self._waiting.get((owner, namespace), "not listed yet")
                    message = f"{owner.name}s wait, because {kind.plural} could not be listed: {reason}"
                    waiting[owner, namespace] = message
        for scope in waiting.keys() - self._waiting.keys():
            _LOG.warning("not reconciled", kind=scope[0].name, namespace=scope[1], reason=waiting[scope])
        for scope in self._waiting.keys() - waiting.keys():
            _LOG.info("reconciled from now on", kind=scope[0].name, namespace=scope[1])
        self._waiting = waiting


def _check_version(kind: Kind, version: str, newest: int) -> None:
    """Compare the version of a list with the highest version that was seen before it was requested.

    Raises:
        RestoredClusterError: the list is older, which a consistent read cannot be.
    """
    if 0 < version_number(version) < newest:
        raise RestoredClusterError(
            f"The list of {kind.plural} has resource version {version}, but version {newest} was seen before: the "
            f"cluster was restored from a backup. The operator ends, and starts again from what the cluster has now."
        )
