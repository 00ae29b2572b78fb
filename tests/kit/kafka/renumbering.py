"""Restarting a broker under another node ID, as after a reinstallation on the old disks.

Existing partitions stay assigned to the old ID, so none of them has a leader.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kit.kafka.settings import random_id

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster


def renumber(cluster: KafkaCluster, node_id: int) -> None:
    """Restart the only broker of `cluster` as `node_id`, with the same metadata and ports."""
    (server,) = cluster._servers
    cluster.stop()
    properties = server.node.log_folder / "meta.properties"
    text = re.sub(r"(?m)^node\.id=.*$", f"node.id={node_id}", properties.read_text())
    # The controller ties a directory ID to the broker that registered it, so the directory needs a new ID, too.
    properties.write_text(re.sub(r"(?m)^directory\.id=.*$", f"directory.id={random_id()}", text))
    (server.node.log_folder / "__cluster_metadata-0" / "quorum-state").unlink(missing_ok=True)
    server.node = replace(server.node, node_id=node_id)
    cluster.nodes[:] = [server.node]
    cluster.start()
