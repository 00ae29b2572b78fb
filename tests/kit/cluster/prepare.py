"""Owns getting everything slow ahead of a run, in two lanes at once: what compiles, and what is fetched.

Must not start a cluster or an engine. A fresh machine takes most of its time here, one with a filled cache none.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kit.cluster import choosing, engine
from kit.cluster.base_images import base_archives
from kit.cluster.build import COREDNS, HELM, KIND, KUBE, SPARK_OPERATOR
from kit.cluster.packages import NODE_PACKAGES, install


def prepare() -> None:
    """Build the programs and fetch the packages that this machine's kind of cluster and of engine needs.

    Raises:
        ClusterError: something cannot be had.
    """
    sort = choosing.sort_to_expect()
    # Each compilation fills both cores, so programs are built one after the other; fetching hardly needs any.
    programs = {"node": [KUBE, COREDNS], "kind": [KIND], "existing": []}[sort] + [HELM, SPARK_OPERATOR]
    with ThreadPoolExecutor(1) as lane:
        fetching = lane.submit(_fetch, for_node=sort == "node")
        for program in programs:
            program.build()
        fetching.result()


def _fetch(*, for_node: bool) -> None:
    if for_node:
        install(NODE_PACKAGES, reason="runs its pods")
        base_archives()
    engine.prepare()
