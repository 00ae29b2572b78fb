"""Client quotas, set with Kafka's own tool, that throttle a client. Must not know broker processes or topics."""

from __future__ import annotations

import subprocess

from kit.kafka.jars import JVM_OPTIONS, class_path, java


def limit_reading(bootstrap: str, client_id: str, bytes_per_second: int | None) -> None:
    """Limit how fast each broker sends to `client_id`; None removes the limit.

    Raises:
        RuntimeError: the brokers rejected the quota; contains the tool's output.
    """
    limit = ["--delete-config", "consumer_byte_rate"]
    if bytes_per_second is not None:
        limit = ["--add-config", f"consumer_byte_rate={bytes_per_second}"]
    entity = ["--entity-type", "clients", "--entity-name", client_id]
    tool = [str(java()), *JVM_OPTIONS, "-cp", class_path(), "kafka.admin.ConfigCommand"]
    result = subprocess.run(
        [*tool, "--bootstrap-server", bootstrap, "--alter", *limit, *entity],
        check=False,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise RuntimeError(f"The quota of {client_id} cannot be set: {result.stdout}{result.stderr}")
