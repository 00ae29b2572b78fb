"""Owns listing the cluster: which kinds are served where, which are not, for which that is unknown, and what is new.

Must not know who is woken by what is new. Only the API server's word that there is no such kind (404) means that a kind
is not served. Any other refusal leaves it as it was before; where it was never listed, nobody may conclude from it that
there are no such objects, so who depends on them waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from gapless_operator.shell.api.errors import ApiError, ExpiredError, NotFoundError, RefusedError
from gapless_operator.shell.api.kinds import DEPENDENCIES, SPARK_APPLICATION, WATCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from gapless_operator.shell.api.client import ClusterApi
    from gapless_operator.shell.api.kinds import Kind
    from gapless_operator.shell.cache.store import Body, Cache

_LOG = structlog.get_logger("gapless.lists")
_TRIES = 3
"""How often a list is begun that took so long that its rest cannot be had."""
Place = tuple["Kind", str | None]
"""A kind and a namespace; ``None`` for all."""


class Lists:
    """What is served, and the lists of it."""

    def __init__(
        self,
        api: ClusterApi,
        cache: Cache,
        namespaces: Collection[str],
        *,
        changed: Callable[[Body], None],
        listed: Callable[[Kind], None],
    ) -> None:
        """Prepare it.

        Args:
            api: to list with.
            cache: to put into.
            namespaces: to list; none for the whole cluster.
            changed: called for each object that was new, changed or is gone.
            listed: called for each kind that was listed.
        """
        self._api, self._cache = api, cache
        self.namespaces: Sequence[str | None] = list(namespaces) or [None]
        self._changed, self._listed = changed, listed
        self.served: set[Place] = set()
        """What the cluster has and was listed."""
        self._absent: set[Place] = set()
        self._waiting: dict[Place, str] = {}
        """Why a kind of ours waits."""

    def list_all(self, kinds: Collection[Kind] = WATCHED) -> None:
        """List `kinds` again, each as well as possible. Blocks.

        Raises:
            ApiError: the first error of those that pass by themselves; the other kinds were listed all the same.
        """
        problem: ApiError | None = None
        refusals: dict[Place, str] = {}
        for kind in kinds:
            for namespace in self.namespaces:
                place = (kind, namespace)
                try:
                    self._list(kind, namespace)
                except NotFoundError as error:
                    self._leave(place, str(error))
                except RefusedError as error:
                    # Rights are checked before kinds: only the list of kinds tells whether there is such a kind.
                    if place not in self.served and not self._api.serves(kind):
                        self._leave(place, str(error))
                    else:
                        refusals[place] = str(error)
                except ApiError as error:
                    refusals[place] = str(error)
                    # Definitions of others may be broken for long, such as by a conversion that does not answer.
                    if kind is not SPARK_APPLICATION:
                        problem = problem or error
                else:
                    self._listed(kind)
        self._tell(refusals)
        if problem is not None:
            raise problem

    def missing(self, kind: Kind, namespace: str) -> str:
        """Why objects of ours of a `kind` cannot be reconciled in a `namespace`; empty when they can."""
        for place in ((kind, namespace), (kind, None)):
            if place in self._waiting:
                return self._waiting[place]
        return ""

    def serves(self, kind: Kind) -> bool:
        """Whether the cluster has a kind, in whatever namespace."""
        return any(served is kind for served, _ in self.served)

    def _list(self, kind: Kind, namespace: str | None) -> None:
        for tries_left in reversed(range(_TRIES)):
            present, version = set[str](), ""
            is_known = self._cache.knows if (kind, namespace) in self.served else None
            try:
                for page in self._api.pages(kind, namespace, is_known=is_known):
                    present |= page.present
                    version = page.version
                    for body in page.bodies:
                        if self._cache.store(body):
                            self._changed(body)
            except ExpiredError:
                if not tries_left:
                    raise
                continue
            break
        for body in self._cache.prune(kind, namespace, present, version):
            self._changed(body)
        self._absent.discard((kind, namespace))
        self.served.add((kind, namespace))

    def _leave(self, place: Place, why: str) -> None:
        """Take note that there is no such kind."""
        if place in self.served:
            _LOG.warning("no longer served", kind=place[0].name, namespace=place[1], error=why)
        self.served.discard(place)
        self._absent.add(place)

    def _tell(self, refusals: dict[Place, str]) -> None:
        """Say what is not listed, and who waits for it, when it begins and when it ends."""
        for place, why in refusals.items():
            if place in self.served:
                _LOG.warning("list failed; what is known stays", kind=place[0].name, namespace=place[1], error=why)
        waiting: dict[Place, str] = {}
        for owner, namespace in self.served:
            for kind in DEPENDENCIES.get(owner, ()):
                place = (kind, namespace)
                if place not in self.served and place not in self._absent:
                    why = refusals.get(place) or self._waiting.get((owner, namespace), "it was not listed yet")
                    waiting[owner, namespace] = f"{owner.name}s wait, because {kind.plural} could not be listed: {why}"
        for place in waiting.keys() - self._waiting.keys():
            _LOG.warning("not reconciled", kind=place[0].name, namespace=place[1], because=waiting[place])
        for place in self._waiting.keys() - waiting.keys():
            _LOG.info("reconciled from now on", kind=place[0].name, namespace=place[1])
        self._waiting = waiting
