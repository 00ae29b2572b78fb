"""The proof that captured bundles and settings give the captured packets, through a real broker."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kit.story.resending import Resend, events_of

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

VECTORS = Path(__file__).parent.parent / "unit" / "vectors"
FIRST_MS = 1767225600000  # 2026-01-01T00:00:00Z


@pytest.fixture(scope="module", autouse=True)
def transfer(kafka: KafkaBroker) -> str:
    """The upstream topic of the vectors: 3 partitions, offsets 0 to 19, one record a minute."""
    topic = kafka.create_topic("transfer", 3)
    for partition in range(3):
        kafka.produce(
            topic,
            [f"p{partition}-o{offset}".encode() for offset in range(20)],
            partition=partition,
            timestamps=[FIRST_MS + offset * 60_000 for offset in range(20)],
        )
    return topic


def vector(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((VECTORS / f"resend-{name}.json").read_text())
    return found


def settings_of(found: dict[str, Any], folder: Path) -> dict[str, Any]:
    settings = dict(found["settings"] or {})
    if "bundle" in found:
        (folder / "vector.json").write_text(json.dumps(found["bundle"]))
        settings["resendFileName"] = folder / "vector.json"
    return settings


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [
        ("bundle-all", 0),
        ("bundle-first", 0),
        ("input-filter", 0),
        ("manual-offsets", 0),
        ("manual-open-end", 0),
        ("missing-upstream", 4),
        ("time-range-one-partition", 0),
    ],
)
def test_a_vector_gives_exactly_its_packets(name: str, exit_code: int, resend: Resend, listener: Listener) -> None:
    found = vector(name)
    ended = resend.run(**settings_of(found, resend.folder))
    assert ended.exit_code == exit_code, ended.stderr
    assert ended.ledger["sent"] + ended.ledger["filtered"] == len(found["packets_hex"])
    assert sorted(events_of(listener.settled())) == sorted(map(bytes.fromhex, found["packets_hex"]))


def test_the_same_settings_come_from_a_file_and_from_the_environment(resend: Resend, listener: Listener) -> None:
    found = vector("manual-offsets")
    file = resend.folder / "peer.properties"
    lines = {**resend.settings, **found["settings"], "sendingThreads": '[{"now":0}]', "from": "", "deliverFilter": ""}
    file.write_text("# a file of the peer\n" + "\n".join(f"{name}={value}" for name, value in lines.items()))
    resend.settings = {}
    command = resend.command()
    process = resend.start(environment={"AIRGAP_RESEND_OFFSET_TO": "5"})
    assert process.wait(30) == 2, "without the file the target is missing"
    process.communicate()
    done = subprocess.run(
        [*command, str(file)],
        env={**os.environ, "AIRGAP_RESEND_OFFSET_TO": "5"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("sendingThreads") == 1, "named once"
    assert sorted(events_of(listener.settled())) == sorted(map(bytes.fromhex, found["packets_hex"][:2]))


def test_an_encrypted_event_opens_with_the_key_that_was_announced_before_it(resend: Resend, listener: Listener) -> None:
    found = vector("encrypted")
    settings = settings_of(found, resend.folder) | {"publicKeyFile": VECTORS / "test-cert.pem", "keyRepeats": 2}
    ended = resend.run(**settings)
    assert ended.exit_code == 0, ended.stderr
    status, *keys, event, farewell = listener.settled()
    assert (status[0], farewell[0]) == (2, 2)
    assert len(keys) == 2
    assert keys[0] == keys[1]
    expected_key, expected_event = map(bytes.fromhex, found["packets_hex"])
    assert keys[0][:18] == expected_key[:18]
    assert len(keys[0]) == len(expected_key)
    private = load_pem_private_key((VECTORS / "test-private.pem").read_bytes(), None)
    assert isinstance(private, rsa.RSAPrivateKey)
    oaep = padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=None)
    opened = private.decrypt(keys[0][-256:], oaep)
    assert opened[:11] == b"KEY_UPDATE#"
    assert len(event) == len(expected_event)
    assert event[:19] == expected_event[:19]
    body = event[-33:]
    assert AESGCM(opened[11:]).decrypt(body[:12], body[12:], None) == b"p0-o3"
