"""Each error that Kafka's client can give has a meaning, and both programs that read Kafka take it from one table."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from gapless_api.base.errors import ERROR_OUTCOMES, ConfigurationError, SourceStalledError, SourceUnreachableError
from gapless_api.base.exit_codes import ExitCode
from gapless_kafka.access.errors import (
    BAD_SETTINGS,
    DENIED,
    EXPIRED,
    FAULTS,
    LOGIN,
    NO_TOPIC,
    OTHER,
    TRANSIENT,
    UNREACHABLE,
    fault_of,
    reason_in,
)

ROOT = Path(__file__).parents[3]
CODES = {name: code for name in dir(KafkaError) if isinstance(code := getattr(KafkaError, name), int)}
NAMES = sorted({KafkaError(code).name() for code in CODES.values()})


@pytest.mark.parametrize("name", NAMES)
def test_every_error_says_what_to_do_and_how_the_command_ends(name: str) -> None:
    fault = fault_of(name)
    verdict = ERROR_OUTCOMES[fault.raises]
    assert verdict.exit_code in {ExitCode.BAD_CONFIGURATION, ExitCode.SOURCE_UNREACHABLE}
    assert verdict.condition_reason
    said = str(fault.error("kafka:9092", "the topic t", reason="why", hint=", or look"))
    assert said.count(". ") == 0
    assert said.endswith(".")
    assert "{" not in said


def test_the_table_names_no_error_that_the_client_does_not_have() -> None:
    assert set(FAULTS) - set(NAMES) <= {"_NO_ERROR"}


def test_what_is_in_no_row_ends_the_reading_with_its_own_words() -> None:
    unnamed = set(NAMES) - set(FAULTS)
    assert {"UNSUPPORTED_VERSION", "_BAD_MSG", "INVALID_REQUEST"} <= unnamed
    assert all(fault_of(name) is OTHER for name in (*unnamed, "AN_ERROR_OF_TOMORROW"))
    assert "(Broker: no)" in str(OTHER.error("k:1", reason="Broker: no"))


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (KafkaError._PARTITION_EOF, TRANSIENT),
        (KafkaError.LEADER_NOT_AVAILABLE, TRANSIENT),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, TRANSIENT),
        (KafkaError._TRANSPORT, UNREACHABLE),
        (KafkaError._ALL_BROKERS_DOWN, UNREACHABLE),
        (KafkaError._AUTHENTICATION, LOGIN),
        (KafkaError._SSL, LOGIN),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, DENIED),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, DENIED),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, NO_TOPIC),
        (KafkaError._UNKNOWN_PARTITION, NO_TOPIC),
        (KafkaError._AUTO_OFFSET_RESET, EXPIRED),
        (KafkaError.OFFSET_OUT_OF_RANGE, EXPIRED),
        (KafkaError._INVALID_ARG, BAD_SETTINGS),
    ],
)
def test_the_usual_errors_are_in_their_rows(code: int, fault: object) -> None:
    assert fault_of(KafkaError(code).name()) is fault


def test_how_a_command_ends() -> None:
    assert type(NO_TOPIC.error("k:1", "the topic t")) is ConfigurationError
    assert type(DENIED.error("k:1", "the topic t")) is SourceUnreachableError
    assert type(TRANSIENT.error("k:1", "the topic t")) is SourceStalledError
    assert ERROR_OUTCOMES[TRANSIENT.raises] == (ExitCode.SOURCE_UNREACHABLE, "SourceStalled")
    assert ERROR_OUTCOMES[NO_TOPIC.raises] == (ExitCode.BAD_CONFIGURATION, "BadConfiguration")


def test_what_the_client_says_loses_the_names_of_its_threads() -> None:
    text = "sasl_plaintext://k:1/bootstrap: [thrd:main]: SASL authentication error:\n  no such user."
    assert reason_in(text) == "SASL authentication error: no such user"


def test_nobody_else_sorts_errors_of_kafka() -> None:
    """No other module sorts error names or codes: what they mean to a reader, and to a writer, is said once."""
    tables = {("access", "errors.py"), ("writing", "faults.py")}
    few = {"_PARTITION_EOF", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}
    few |= {"TOPIC_ALREADY_EXISTS", "INVALID_PARTITIONS", "_FAIL", "_MSG_TIMED_OUT", "_PURGE_QUEUE"}
    few |= {"_QUEUE_FULL"}  # writing/headers.py raises BufferError for it, as the client's own binding does
    few |= {"BROKER_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE"}  # access/answers.py raises them for answers that are none
    sorted_here = set(NAMES) - few - {"UNKNOWN"}
    mentions = re.compile("|".join(sorted_here))
    offenders = []
    for folder in ("crds", "kafka", "archive", "sender", "spark", "operator"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if folder == "kafka" and path.parts[-2:] in tables:
                continue
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if mentions.search(text) else ():
                spelt = node.value if isinstance(node, ast.Constant) else getattr(node, "attr", None)
                if isinstance(spelt, str) and spelt in sorted_here:
                    offenders.append(f"{path.relative_to(ROOT)}:{node.lineno} {spelt}")  # type: ignore[attr-defined]
    assert offenders == []
