"""Owns a real Kubernetes cluster for tests, whatever the machine has: a kubeconfig, kind, or one made from source.

Must not know the product. `python -m kit.cluster up` prints a kubeconfig; tests call `kit.cluster.choosing.bring_up`.
"""
