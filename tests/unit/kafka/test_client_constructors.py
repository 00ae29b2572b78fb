"""The proof that Kafka's clients are created in one place, and that what they refuse is one sentence."""

from __future__ import annotations

import ast
import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from kit.story.commands import GAPLESS

ROOT = Path(__file__).parents[3]
PLACE = ROOT / "kafka" / "gapless_kafka" / "access" / "constructors.py"
CLIENTS = {"AdminClient", "AvroConsumer", "AvroProducer", "Consumer", "DeserializingConsumer", "Producer"}


def constructors(module: Path) -> list[int]:
    """The lines of a module that call a constructor of Kafka's clients, or hand it on."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("confluent_kafka")
        for alias in node.names
        if alias.name in CLIENTS
    }
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [
        node.lineno
        for node in called
        if (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.Attribute) and node.attr in CLIENTS)
    ]


def test_one_module_creates_the_clients_of_kafka() -> None:
    packages = [ROOT / part / f"gapless_{part}" for part in ("kafka", "archive", "sender", "spark", "operator")]
    modules = [module for package in packages for module in package.rglob("*.py") if module != PLACE]
    assert len(modules) > 300
    assert {str(module.relative_to(ROOT)): lines for module in modules if (lines := constructors(module))} == {}


@pytest.fixture(scope="module")
def weak(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate and a key of 1,024 bits, which OpenSSL refuses to use."""
    folder = tmp_path_factory.mktemp("weak")
    key = rsa.generate_private_key(65537, 1024)  # noqa: S505 -- weak on purpose
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "weak")])
    now = dt.datetime.now(dt.UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=9))
    (folder / "cert.pem").write_bytes(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
    return {"cert-file": str(folder / "cert.pem"), "key-file": str(folder / "key.pem")}


@pytest.mark.parametrize(
    "command",
    [
        "scan --topic=t",
        "create --topic=t",
        "audit --topics=t",
        "doctor --topics=t",
        "inventory --topics=t",
        "archive --topics=t --archive=A --region=r",
        "resend --target-ip=127.0.0.1 --target-port=9 --topic=t --partition=0 --offset-from=1 --offset-to=2 --eps=1000",
        "mirror --topics=t --name=m",
        "mirror status --name=m",
        "mirror groups --name=m --groups=g",
    ],
)
def test_a_key_that_openssl_refuses_is_one_sentence(command: str, weak: dict[str, str], tmp_path: Path) -> None:
    sides = ("source-", "target-") if command.startswith("mirror") else ("",)
    login = [f"--{side}{option}={file}" for side in sides for option, file in weak.items()]
    servers = [f"--{side}bootstrap-servers=127.0.0.1:9" for side in sides]
    arguments = [word.replace("=A", f"={tmp_path}") for word in command.split()]
    done = GAPLESS.run(*arguments, *servers, *login, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert "Kafka's client rejects its settings" in done.stderr + done.stdout
