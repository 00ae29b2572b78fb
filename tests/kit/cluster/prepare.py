"""Compiling and downloading everything slow ahead of a run, in parallel.

Must not start a cluster or an engine. A new machine spends most of its time here, one with a filled cache none.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kit.cluster import engine, selection
from kit.cluster.base_images import base_archives
from kit.cluster.build import COREDNS, CRANE, HELM, KIND, KUBE, SPARK_OPERATOR
from kit.cluster.client_source import client_source
from kit.cluster.packages import NODE_PACKAGES, install


def prepare() -> None:
    """Build the programs and download the packages that the cluster and the engine of this machine need.

    Raises:
        ClusterError: a build or a download failed.
    """
    provider = selection.expected_provider()
    # Each compilation uses both cores, so programs are built one after the other; downloads hardly need any.
    programs = {"node": [KUBE, COREDNS], "kind": [KIND], "existing": []}[provider] + [HELM, CRANE, SPARK_OPERATOR]
    with ThreadPoolExecutor(1) as pool:
        download = pool.submit(_download, for_node=provider == "node")
        for program in programs:
            program.build()
        download.result()


def _download(*, for_node: bool) -> None:
    if for_node:
        install(NODE_PACKAGES, reason="runs its pods")
        base_archives()
    client_source()
    engine.prepare()
