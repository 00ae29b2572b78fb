"""The container that evaluates the SQL of a Mirror beside a worker. Must not know the rest of the pod.

It runs a user's statement, so it gets none of the worker's files: no Secret, no settings, no account, and another /tmp.
The two share an empty volume with a socket, on which the worker sends records and gets results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_operator.engines.pod import Content, container, java_memory, pod_memory

if TYPE_CHECKING:
    from gapless_api.v1alpha1.mirror import MirrorSpark, MirrorSpec
    from gapless_operator.common.settings import Program

NAME = "sql"
_FOLDER, _VOLUME, _TEMPORARY = "/run/gapless", "sql-socket", "sql-tmp"
SOCKET = f"{_FOLDER}/sql.sock"
_MOUNT = {"name": _VOLUME, "mountPath": _FOLDER}


def sql_image(spec: MirrorSpec, program: Program) -> str:
    """Return the image of the container; `program` is that of Spark."""
    return spec.spark.image or program.image


def with_sql_container(pod: dict[str, Any], spec: MirrorSpec, program: Program) -> dict[str, Any]:
    """Return the pod of a worker with the container, which runs from before the worker starts until it has ended.

    Args:
        pod: the spec of the pod, of which the first container is the worker.
        spec: of the Mirror.
        program: of Spark.
    """
    worker, *others = pod["containers"]
    return pod | {
        "containers": [worker | {"volumeMounts": [*worker["volumeMounts"], _MOUNT]}, *others],
        "initContainers": [_container(spec, program)],
        "volumes": [*pod["volumes"], *({"name": name, "emptyDir": {}} for name in (_VOLUME, _TEMPORARY))],
    }


def _container(spec: MirrorSpec, program: Program) -> dict[str, Any]:
    options: MirrorSpark = spec.spark
    memory = pod_memory(options.driver.memory, cores=1)
    return container(Content(), name=NAME) | {
        "image": sql_image(spec, program),
        "imagePullPolicy": program.pull_policy,
        "command": ["gapless"],
        "args": [
            "mirror",
            "evaluate",
            f"--transform-socket={SOCKET}",
            f"--master=local[{options.driver.cores}]",
            f"--driver-memory={java_memory(options.driver.memory)}",
        ],
        "restartPolicy": "Always",
        "volumeMounts": [{"name": _TEMPORARY, "mountPath": "/tmp"}, _MOUNT],  # noqa: S108 -- not that of the worker
        "resources": {
            "requests": {"cpu": options.driver.cpu or str(options.driver.cores), "memory": memory},
            "limits": {"memory": memory},
        },
    }
