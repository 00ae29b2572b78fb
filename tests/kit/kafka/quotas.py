"""Owns how a client is made slow by the brokers, with Kafka's own tool. Must not know brokers' processes or topics."""

from __future__ import annotations

import subprocess

from kit.kafka.jars import SMALL_AND_QUICK, class_path, java


def limit_reading(bootstrap: str, client_id: str, bytes_per_second: int | None) -> None:
    """Let each broker send no more than so much to `client_id`; ``None`` takes the limit away.

    Raises:
        RuntimeError: the brokers refuse, with what the tool said.
    """
    limit = ["--delete-config", "consumer_byte_rate"]
    if bytes_per_second is not None:
        limit = ["--add-config", f"consumer_byte_rate={bytes_per_second}"]
    entity = ["--entity-type", "clients", "--entity-name", client_id]
    tool = [str(java()), *SMALL_AND_QUICK, "-cp", class_path(), "kafka.admin.ConfigCommand"]
    done = subprocess.run(
        [*tool, "--bootstrap-server", bootstrap, "--alter", *limit, *entity],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"The quota of {client_id} cannot be set: {done.stdout}{done.stderr}")
