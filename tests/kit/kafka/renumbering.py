"""Owns how a broker comes back with another id, as after a reinstallation on the old disks.

What was stored under the old id stays assigned to it: no partition that existed before has a leader.
"""

from __future__ import annotations

import base64
import re
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster


def renumber(cluster: KafkaCluster, node_id: int) -> None:
    """Stop the only broker of `cluster` and start it under `node_id`, with its metadata and on its ports."""
    (server,) = cluster._servers
    cluster.stop()
    properties = server.node.log_folder / "meta.properties"
    text = re.sub(r"(?m)^node\.id=.*$", f"node.id={node_id}", properties.read_text())
    # A folder belongs to the broker that has registered its id, so that it needs another one, too.
    properties.write_text(re.sub(r"(?m)^directory\.id=.*$", f"directory.id={_folder_id()}", text))
    (server.node.log_folder / "__cluster_metadata-0" / "quorum-state").unlink(missing_ok=True)
    server.node = replace(server.node, node_id=node_id)
    cluster.nodes[:] = [server.node]
    cluster.start()


def _folder_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "_")
