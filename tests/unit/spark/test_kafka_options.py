"""Owns the proof of what Java's client is told about Kafka; needs no Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_kafka.connection import KafkaConnection
from gapless_spark.runtime.kafka_source import java_options
from kit.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path


def test_what_openssl_writes_above_a_certificate_may_be_in_any_encoding(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    file = tmp_path / "ca.pem"
    file.write_bytes(b"Issuer: O = S\xf6dra l\xe4nken\n" + authority.file.read_bytes())
    options = java_options(KafkaConnection(bootstrap_servers="kafka:9092", tls=True, ca_file=file))
    assert authority.file.read_text() in options["kafka.ssl.truststore.certificates"]
