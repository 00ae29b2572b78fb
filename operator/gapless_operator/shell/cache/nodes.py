"""The state of the nodes of our pods: whether they are ready, and since when.

Must not know what follows from it. Nodes are read one by one and by name, because only a few of a large cluster are
relevant and the objects are large. Without the permission to read nodes, a lost node shows only by unreadable logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import structlog

from gapless_operator.common.observed import ObservedNode
from gapless_operator.shell.api.errors import RefusedError
from gapless_operator.shell.api.kinds import NODE

if TYPE_CHECKING:
    from gapless_operator.shell.api.client import ClusterApi

_LOG = structlog.get_logger("gapless.nodes")


class Nodes:
    """Nodes by name."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._known: dict[str, ObservedNode] = {}
        self._may_read = True

    def state(self, name: str) -> ObservedNode | None:
        """Return the state of a node; ``None`` if it is unknown."""
        return self._known.get(name)

    def read(self, names: Iterable[str]) -> set[str]:
        """Read the nodes with these names and forget all others; return which have changed. Blocks.

        Raises:
            UnavailableError: the API server does not answer.
        """
        before, nodes = self._known, dict[str, ObservedNode]()
        for name in sorted(set(names) - {""}):
            try:
                body = self._api.get(NODE, None, name)
            except RefusedError as error:
                if self._may_read:
                    _LOG.warning("cannot detect lost nodes: nodes may not be read", error=str(error))
                self._may_read = False
                self._known = {}
                return set()
            # A node that was removed from the cluster counts as lost.
            nodes[name] = ObservedNode(name=name, ready=False) if body is None else ObservedNode.of(body)
        self._may_read = True
        self._known = nodes
        was_ready = {name: node.ready for name, node in before.items()}
        return {name for name, node in nodes.items() if node.ready != was_ready.get(name, True)}
