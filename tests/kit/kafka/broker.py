"""One real Kafka broker on loopback; must not know the product.

`python -m kit.kafka.broker --data DIR` runs one in the foreground and prints its address as one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from kit.kafka.cluster import KafkaCluster


class KafkaBroker(KafkaCluster):
    """One broker; arguments as for `KafkaCluster`."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        secured: bool = False,
        config: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = (),
        address: str = "127.0.0.1",
    ) -> None:
        super().__init__(1, folder, secured=secured, config=config, jvm_options=jvm_options, address=address)


def main() -> None:
    """Run a broker until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m kit.kafka.broker", description="Run a Kafka broker on loopback.")
    parser.add_argument("--data", type=Path, help="data folder to keep (default: a temporary folder)")
    parser.add_argument("--secured", action="store_true", help="also offer TLS and SASL listeners")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="create if missing")
    options = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with KafkaBroker(options.data, secured=options.secured) as broker:
        existing = broker.admin().list_topics(timeout=10).topics
        for topic in options.topic:
            name, _, partitions = topic.partition(":")
            if name not in existing:
                broker.create_topic(name, int(partitions or 1))
        addresses = {name: broker.address(name) for name in broker.listeners}
        line = {"bootstrap": broker.bootstrap, "listeners": addresses, "pid": os.getpid()}
        print(json.dumps(line), flush=True)
        while broker.running and not stopped.wait(0.5):
            pass
        if not stopped.is_set():
            raise SystemExit(f"The broker exited unexpectedly: {broker.log}")


if __name__ == "__main__":
    main()
