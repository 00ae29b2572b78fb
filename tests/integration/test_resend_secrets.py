"""The proof that a running resend shows its keys nowhere, and that no nonce comes twice on the wire."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kit.peer.reassembly import parse

if TYPE_CHECKING:
    import subprocess

    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener
    from kit.story.resending import Resend

VECTORS = Path(__file__).parents[1] / "unit" / "vectors"
_KEY_EXCHANGE, _ENCRYPTED = 3, 0
_KEY_ID = b"KEY_UPDATE#"


def _family(process: subprocess.Popen[str]) -> list[int]:
    """The process and those that it has started."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    return [process.pid, *map(int, listed.split())]


def _announced_keys(datagrams: list[bytes]) -> set[bytes]:
    private = load_pem_private_key((VECTORS / "test-private.pem").read_bytes(), None)
    assert isinstance(private, rsa.RSAPrivateKey)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    wrapped = {packet.payload for packet in map(parse, datagrams) if packet.kind == _KEY_EXCHANGE}
    return {private.decrypt(each[len(_KEY_ID) :], oaep)[len(_KEY_ID) :] for each in wrapped}


def test_keys_are_in_no_argument_variable_log_report_or_checkpoint_and_no_nonce_comes_twice(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic(2)
    for partition in range(2):
        kafka.produce(name, [b"event %d" % index for index in range(300)], partition=partition)
    running = resend.start(
        resendFileName=resend.bundle({(name, 0): [[0, 299]], (name, 1): [[0, 299]]}),
        encryption=True,
        publicKeyFile=VECTORS / "test-cert.pem",
        generateNewSymmetricKeyEvery=1,
        eps=200,
        parallelism=2,
        checkpoint=resend.folder / "resend.checkpoint",
        logFileName=resend.folder / "resend.log",
        logLevel="TRACE",
    )
    deadline = time.monotonic() + 60
    while len(_family(running)) < 3 or not any(parse(each).kind == _ENCRYPTED for each in listener.datagrams):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    shown = {}
    for pid in _family(running):
        for file in ("cmdline", "environ"):
            shown[f"{file} of {pid}"] = Path(f"/proc/{pid}/{file}").read_bytes()
        limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii").splitlines()
        soft, hard = next(line for line in limits if line.startswith("Max core file size")).split()[4:6]
        assert int(soft) <= 1 >= int(hard), "no core dump of a process that holds keys"
    for file in resend.folder.iterdir():
        shown[f"{file.name} on the way"] = file.read_bytes()
    ended = resend.ended(running)
    assert ended.exit_code == 0, ended.stderr
    shown |= {"standard output": ended.stdout.encode(), "standard error": ended.stderr.encode()}
    shown |= {file.name: file.read_bytes() for file in resend.folder.iterdir()}
    datagrams = listener.settled()
    keys = _announced_keys(datagrams)
    assert len(keys) >= 2, "they rotate"
    assert {"resend.checkpoint", "resend.log", "report.json"} <= set(shown)
    for key in keys:
        for form in (key, key.hex().encode(), base64.b64encode(key), repr(key).encode()):
            assert [place for place, content in shown.items() if form in content] == []
    sealed = [packet.payload for packet in map(parse, datagrams) if packet.kind == _ENCRYPTED]
    assert len(sealed) == 600
    assert len({body[:12] for body in sealed}) == len(sealed)
