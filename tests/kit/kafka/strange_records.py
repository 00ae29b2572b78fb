"""How records are written whose header keys are bytes that no text has, by the C library of Kafka's client.

Must not know the product, which has a way of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from confluent_kafka import cimpl

from kit.kafka.writing import ONCE_IN_ORDER

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster
    from kit.kafka.stored_headers import Headers

_PRODUCER, _END, _TOPIC, _PARTITION, _VALUE, _FLAGS, _TIMESTAMP, _HEADERS = 0, 0, 1, 3, 4, 7, 8, 10
_COPY = 2
_ERROR_BYTES = 512


def produce_strange(
    kafka: KafkaCluster, topic: str, records: Sequence[Headers], *, partition: int = 0, timestamp: int = 0
) -> None:
    """Write a record for each of `records`, its headers, uncompressed; their values are their numbers."""
    library = ctypes.CDLL(cimpl.__file__)
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ssize_t
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, name).restype = pointer
    conf = pointer(library.rd_kafka_conf_new())
    reason = ctypes.create_string_buffer(_ERROR_BYTES)
    once_in_order = {name: str(value).lower() for name, value in ONCE_IN_ORDER.items()}
    for name, value in {**kafka.client_options(), "compression.type": "none", **once_in_order}.items():
        assert library.rd_kafka_conf_set(conf, name.encode(), str(value).encode(), reason, size(_ERROR_BYTES)) == 0, (
            reason.value
        )
    producer = pointer(library.rd_kafka_new(_PRODUCER, conf, reason, size(_ERROR_BYTES)))
    assert producer, reason.value
    try:
        for number, headers in enumerate(records):
            made = pointer(library.rd_kafka_headers_new(size(len(headers))))
            for key, content in headers:
                library.rd_kafka_header_add(made, text(key), size(len(key)), text(content), size(len(content or b"")))
            value = b"%d" % number
            failed = library.rd_kafka_producev(
                producer,
                *(_TOPIC, text(topic.encode()), _PARTITION, ctypes.c_int32(partition), _FLAGS, _COPY),
                *(_VALUE, text(value), size(len(value)), _TIMESTAMP, ctypes.c_int64(timestamp)),
                *(_HEADERS, made, _END),
            )
            assert failed == 0, failed
        assert library.rd_kafka_flush(producer, 60_000) == 0
    finally:
        library.rd_kafka_destroy(producer)
