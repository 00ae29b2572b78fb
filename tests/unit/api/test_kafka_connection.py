from __future__ import annotations

import datetime as dt
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import SettingsTable, resolve
from gapless_kafka.access.connection import KafkaConnection, connection_from
from gapless_kafka.access.settings import KAFKA_SETTINGS

SECRET = "hunter2-hunter2"  # noqa: S105 -- it must not be seen anywhere
KEYS = Path(__file__).parents[1] / "vectors" / "keys"
ENCRYPTED = sorted(path.name for path in KEYS.glob("*-*.pem") if path.name != "legacy-aes192.pem")


def issue(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate and its key, the key encrypted with SECRET."""
    key = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=2))
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / f"{name}.crt", folder / f"{name}.key"
    certificate_file.write_bytes(certificate.public_bytes(Encoding.PEM))
    encryption = BestAvailableEncryption(SECRET.encode())
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    return certificate_file, key_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("kafka")
    issue(made, "user")
    issue(made, "other")
    (made / "password").write_text(f"\n  {SECRET}\t\r\n")
    (made / "wrong").write_text("not-" + SECRET)
    (made / "empty").write_text(" \n")
    (made / "latin").write_bytes(b"\xe9")
    (made / "utf-16").write_bytes("geheim".encode("utf-16"))
    (made / "utf-16-be").write_bytes("geheim".encode("utf-16-be"))
    (made / "bom").write_bytes("\ufeffgeheim\r\n".encode())
    (made / "garbage").write_bytes(b"-----BEGIN CERTIFICATE-----\nMIIBxxxx\n-----END CERTIFICATE-----\n")
    (made / "garbage.key").write_bytes(b"-----BEGIN PRIVATE KEY-----\nMIIBxxxx\n-----END PRIVATE KEY-----\n")
    clear = load_pem_private_key((made / "user.key").read_bytes(), SECRET.encode())
    (made / "clear.key").write_bytes(clear.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return made


def connection(**given: Any) -> KafkaConnection:
    return KafkaConnection(bootstrap_servers="kafka.example.org:9092", **given)


def mutual(folder: Path, **changed: Any) -> KafkaConnection:
    files = {
        "cert_file": folder / "user.crt",
        "key_file": folder / "user.key",
        "key_password_file": folder / "password",
    }
    given = {"bootstrap_servers": "kafka.example.org:9092", "ca_file": folder / "other.crt", **files, **changed}
    return KafkaConnection(**given)


def test_without_anything_the_line_is_plain() -> None:
    assert connection().check().librdkafka_options() == {
        "bootstrap.servers": "kafka.example.org:9092",
        "client.id": "gapless",
        "security.protocol": "PLAINTEXT",
    }


def test_a_ca_file_alone_switches_tls_on(folder: Path) -> None:
    options = connection(ca_file=folder / "other.crt").check().librdkafka_options()
    assert options["security.protocol"] == "SSL"
    assert options["ssl.ca.location"] == str(folder / "other.crt")
    assert "ssl.key.pem" not in options


def test_tls_without_a_ca_file_trusts_the_authorities_of_the_system(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusted(**settings: Any) -> str:
        options = connection(tls=True, **settings).check().librdkafka_options()
        assert options["security.protocol"] == "SSL"
        return str(options["ssl.ca.location"])

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert trusted() == "probe"
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "other.crt"))
    assert trusted() == str(folder / "other.crt")
    assert trusted(ca_file=folder / "user.crt") == str(folder / "user.crt")
    for missing in (folder / "none", folder):
        monkeypatch.setenv("SSL_CERT_FILE", str(missing))
        with pytest.raises(ConfigurationError, match=f"SSL_CERT_FILE names {missing}, which is no file"):
            trusted()
        assert "ssl.ca.location" not in connection().check().librdkafka_options()


def test_a_client_certificate_goes_with_its_decrypted_key(folder: Path) -> None:
    options = mutual(folder).check().librdkafka_options()
    assert options["ssl.certificate.location"] == str(folder / "user.crt")
    assert options["ssl.key.pem"] == (folder / "clear.key").read_text()
    assert mutual(folder).key_pem() == (folder / "clear.key").read_bytes()
    assert connection().key_pem() is None


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("tls", "protocol"), [(True, "SASL_SSL"), (False, "SASL_PLAINTEXT")])
def test_a_login_works_with_and_without_tls(folder: Path, mechanism: str, tls: bool, protocol: str) -> None:  # noqa: FBT001
    login = connection(
        tls=tls, sasl_mechanism=mechanism, sasl_username="user", sasl_password_file=folder / "password"
    ).check()
    options = login.librdkafka_options()
    assert options["security.protocol"] == login.security_protocol == protocol
    assert options["sasl.mechanism"] == mechanism
    assert options["sasl.username"] == "user"
    assert options["sasl.password"] == SECRET


@pytest.mark.parametrize("name", ENCRYPTED)
def test_every_form_of_an_encrypted_key_gives_the_same_key(name: str) -> None:
    files = {"cert_file": KEYS / "certificate.pem", "key_file": KEYS / name}
    assert (
        connection(**files, key_password_file=KEYS / "password.txt").check().key_pem()
        == (KEYS / "pkcs8.pem").read_bytes()
    )


@pytest.mark.parametrize("name", ENCRYPTED)
def test_every_form_of_an_encrypted_key_tells_a_wrong_from_a_missing_password(name: str, folder: Path) -> None:
    files = {"cert_file": KEYS / "certificate.pem", "key_file": KEYS / name}
    with pytest.raises(ConfigurationError, match=r"cannot be decrypted with the password in .*wrong; the password is"):
        connection(**files, key_password_file=folder / "wrong").check()
    with pytest.raises(ConfigurationError, match=r"is encrypted, and no password is set; give .* keyPasswordFile"):
        connection(**files).check()


def test_a_legacy_key_with_aes_192_is_refused_with_how_to_convert_it() -> None:
    files = {"cert_file": KEYS / "certificate.pem", "key_file": KEYS / "legacy-aes192.pem"}
    with pytest.raises(ConfigurationError, match="algorithm that is not supported; convert it with openssl pkcs8"):
        connection(**files, key_password_file=KEYS / "password.txt").check()


@pytest.mark.parametrize("name", ["sec1.pem", "pkcs8.pem"])
def test_a_password_for_a_key_that_needs_none_is_not_used(name: str) -> None:
    files = {"cert_file": KEYS / "certificate.pem", "key_file": KEYS / name}
    assert (
        connection(**files, key_password_file=KEYS / "password.txt").check().key_pem()
        == (KEYS / "pkcs8.pem").read_bytes()
    )


def test_a_key_that_stands_behind_other_blocks_is_found(tmp_path: Path) -> None:
    together = tmp_path / "together.pem"
    together.write_bytes((KEYS / "certificate.pem").read_bytes() + (KEYS / "sec1.pem").read_bytes())
    assert connection(cert_file=together, key_file=together).check().key_pem() == (KEYS / "pkcs8.pem").read_bytes()


WRONG_FILES = {
    "no CA file": ({"ca_file": "none"}, r"none of caFile cannot be read \(No such file or directory\)"),
    "a folder": ({"ca_file": "."}, r"caFile cannot be read \(Is a directory\)"),
    "a CA that is none": ({"ca_file": "garbage"}, "garbage of caFile contains no valid PEM certificate"),
    "a certificate that is a key": ({"cert_file": "clear.key"}, "clear.key of certFile contains no valid PEM cert"),
    "no certificate": ({"cert_file": "none"}, "none of certFile cannot be read"),
    "no key file": ({"key_file": "none"}, "none of keyFile cannot be read"),
    "a key that is a certificate": ({"key_file": "user.crt"}, "user.crt of keyFile contains no PEM private key"),
    "a damaged key": ({"key_file": "garbage.key"}, "garbage.key of keyFile is damaged"),
    "somebody else's key": ({"key_file": "other.key"}, "other.key of keyFile does not belong to the first"),
    "a wrong password": ({"key_password_file": "wrong"}, "user.key of keyFile cannot be decrypted with the"),
    "no password file": ({"key_password_file": "none"}, "none of keyPasswordFile cannot be read"),
    "an empty password file": ({"key_password_file": "empty"}, "empty of keyPasswordFile is empty; write the"),
    "no password": ({"key_password_file": None}, "user.key of keyFile is encrypted, and no password is set"),
    "no key": ({"key_file": None}, "certFile is given without keyFile; mutual TLS needs both"),
    "a key alone": ({"cert_file": None}, "keyFile is given without certFile"),
    "no TLS": ({"tls": False}, "tls is false, but caFile is given; remove one of the two"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_file_that_cannot_be_used_is_one_sentence(folder: Path, case: str) -> None:
    changed, sentence = WRONG_FILES[case]
    paths = {name: folder / to if isinstance(to, str) else to for name, to in changed.items()}
    with pytest.raises(ConfigurationError, match=sentence) as caught:
        mutual(folder, **paths).check()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


WRONG_LOGINS = {
    "no mechanism": ({"sasl_mechanism": None}, "without saslMechanism; give PLAIN"),
    "no user": ({"sasl_username": None}, "needs a user name; give saslUsername"),
    "no password": (
        {"sasl_password_file": None},
        "saslUsername user has no password; set saslPasswordFile to the file",
    ),
    "a missing file": ({"sasl_password_file": "none"}, "none of saslPasswordFile cannot be read"),
    "an empty file": ({"sasl_password_file": "empty"}, "empty of saslPasswordFile is empty"),
    "UTF-16": ({"sasl_password_file": "utf-16"}, "utf-16 of saslPasswordFile is UTF-16 text"),
    "UTF-16 without a mark": ({"sasl_password_file": "utf-16-be"}, "saslPasswordFile is UTF-16 text"),
    "not text": ({"sasl_password_file": "latin"}, "latin of saslPasswordFile is not UTF-8 text"),
}


def test_a_byte_order_mark_is_no_part_of_a_password(folder: Path) -> None:
    login = connection(sasl_mechanism="PLAIN", sasl_username="user", sasl_password_file=folder / "bom")
    assert login.check().sasl_password() == "geheim"


@pytest.mark.parametrize("case", WRONG_LOGINS)
def test_a_login_that_cannot_work_is_one_sentence(folder: Path, case: str) -> None:
    changed, sentence = WRONG_LOGINS[case]
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "user", "sasl_password_file": "password", **changed}
    if login["sasl_password_file"] is not None:
        login["sasl_password_file"] = folder / str(login["sasl_password_file"])
    with pytest.raises(ConfigurationError, match=sentence):
        connection(**login).check()


@pytest.mark.parametrize(
    "address", ["kafka", "kafka:", ":9092", "kafka:0", "kafka:65536", "a:1,,b:2", "http://a:1", ""]
)
def test_an_address_that_is_none_is_one_sentence(address: str) -> None:
    with pytest.raises(ConfigurationError, match="in bootstrapServers is not host:port; write it like"):
        KafkaConnection(bootstrap_servers=address).check()


@pytest.mark.parametrize("address", ["kafka:9092", "a:1, b:2", "127.0.0.1:9092", "[::1]:9092", "[fe80::1%eth0]:9092"])
def test_addresses_of_every_kind_are_taken(address: str) -> None:
    KafkaConnection(bootstrap_servers=address).check()


def test_nothing_secret_is_shown_and_nothing_can_be_changed(folder: Path) -> None:
    shown = mutual(folder, sasl_mechanism="PLAIN", sasl_username="user", sasl_password_file=folder / "password").check()
    shown.librdkafka_options()
    assert SECRET not in repr(shown) + str(shown)
    with pytest.raises(FrozenInstanceError):
        shown.tls = False  # type: ignore[misc]


def test_the_peers_names_and_our_own_are_settings(folder: Path) -> None:
    table = SettingsTable("AIRGAP_RESEND_", KAFKA_SETTINGS)
    environment = {
        "AIRGAP_RESEND_BOOTSTRAP_SERVERS": "kafka:9092",
        "AIRGAP_RESEND_CERT_FILE": str(folder / "user.crt"),
        "AIRGAP_RESEND_KEY_FILE": str(folder / "user.key"),
        "AIRGAP_RESEND_KEY_PASSWORD_FILE": str(folder / "password"),
        "AIRGAP_RESEND_GROUP_ID": "readers",
        "AIRGAP_RESEND_SASL_MECHANISM": "scram-sha-512",
        "AIRGAP_RESEND_SASL_USERNAME": "user",
    }
    options = {"caFile": str(folder / "other.crt"), "saslPasswordFile": str(folder / "password")}
    values = resolve(table, file=None, environment=environment, options=options).values
    built = connection_from(values, client_id="gapless-resend")
    assert built == mutual(
        folder,
        bootstrap_servers="kafka:9092",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="user",
        sasl_password_file=folder / "password",
        client_id="gapless-resend",
        group_id="readers",
    )
    assert connection_from({"bootstrapServers": "kafka:9092"}) == KafkaConnection(bootstrap_servers="kafka:9092")


def test_the_table_of_settings_needs_no_heavy_import() -> None:
    program = (
        "import sys; import gapless_kafka.access.connection\n"
        "print([m for m in ('pydantic', 'cryptography', 'structlog') if m in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.strip() == "[]"


def test_an_elliptic_key_in_the_old_form_without_encryption_is_read(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    path = tmp_path / "key.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    pem = connection(key_file=path).key_pem()
    assert pem == key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
