"""A real Kubernetes cluster for tests: that of a kubeconfig, kind, or a node built from source.

Must not know the product. `python -m kit.cluster up` prints a kubeconfig; tests call `kit.cluster.selection.bring_up`.
"""
