from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec
from gapless_kafka.access import kerberos
from gapless_kafka.access.connection import KafkaConnection, unchecked_connection_from
from gapless_kafka.access.constructors import new_admin
from gapless_kafka.access.kerberos import KerberosLogin, first_principal
from gapless_kafka.access.settings import KAFKA_SETTINGS, settings_of_cluster
from gapless_operator.common.access import kafka_secrets, kafka_settings

ROOT = Path(__file__).parents[3]


def counted(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def entry(principal: str) -> bytes:
    """An entry of a keytab as MIT Kerberos writes it, with a key of AES."""
    name, _, realm = principal.rpartition("@")
    names = name.split("/")
    content = struct.pack(">H", len(names)) + counted(realm) + b"".join(map(counted, names))
    content += struct.pack(">IIBHH", 1, 1_700_000_000, 3, 17, 16) + bytes(16) + struct.pack(">I", 3)
    return struct.pack(">i", len(content)) + content


HOLE = struct.pack(">i", -40) + bytes(40)


@pytest.fixture
def keytab(tmp_path: Path) -> Path:
    file = tmp_path / "gapless.keytab"
    file.write_bytes(b"\x05\x02" + entry("gapless/sender@EXAMPLE.ORG") + entry("other@EXAMPLE.ORG"))
    return file


@pytest.fixture(autouse=True)
def _own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library of each test has no login yet, and what it is told is forgotten."""
    monkeypatch.setattr(kerberos, "_prepared", None)
    for name in ("KRB5_CLIENT_KTNAME", "KRB5CCNAME", "KRB5_CONFIG"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def connection(**login: Any) -> KafkaConnection:
    return KafkaConnection(bootstrap_servers="kafka:9092", sasl_mechanism="GSSAPI", kerberos=KerberosLogin(**login))


def test_the_principal_of_the_first_entry_logs_in(keytab: Path) -> None:
    assert first_principal(keytab.read_bytes()) == "gapless/sender@EXAMPLE.ORG"
    assert first_principal(b"\x05\x02" + HOLE + HOLE + entry("müller@EXAMPLE.ORG")) == "müller@EXAMPLE.ORG"
    connection(keytab_file=keytab, principal="gapless/sender").check()
    connection(keytab_file=keytab, principal="gapless/sender@EXAMPLE.ORG", kdcs="kdc.example.org, [fd00::1]:88").check()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        b"\x05\x02",
        b"\x05\x02" + HOLE,
        b"\x05\x02" + entry("a@X\n[plugins]"),
        b"-----BEGIN",
        b"\x05\x01" + bytes(90),
    ],
)
def test_what_is_no_keytab_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "k"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match="is not a keytab with a principal"):
        connection(keytab_file=file).check()


def test_a_keytab_that_is_cut_at_any_byte_is_refused_or_read() -> None:
    whole = b"\x05\x02" + entry("gapless/sender@EXAMPLE.ORG")
    names = whole.index(b"sender") + len(b"sender")
    for length in range(len(whole)):
        assert first_principal(whole[:length]) == ("gapless/sender@EXAMPLE.ORG" if length >= names else None), length


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ({"principal": "gapless"}, "kerberosPrincipal is given without kerberosKeytabFile"),
        ({"kdcs": "kdc"}, "kerberosKdcs is given without kerberosKeytabFile"),
        ({"keytab_file": Path("/nowhere/k")}, "cannot be read: No such file"),
        ({"keytab": True, "principal": "other"}, "The first principal in the keytab .* is gapless/sender@EXAMPLE.ORG"),
        ({"keytab": True, "kdcs": "kdc:0"}, "'kdc:0' in kerberosKdcs is not a host"),
        ({"keytab": True, "kdcs": "kdc:88,"}, "'' in kerberosKdcs is not a host"),
        ({"keytab": True, "kdcs": "kdc\n[plugins]"}, "is not a host"),
        ({"keytab": True, "kdcs": "kdc }"}, "is not a host"),
        ({"keytab": True, "service_name": "kafka/x"}, "is not the name of a service"),
    ],
)
def test_an_unusable_login_is_refused(keytab: Path, login: dict[str, Any], words: str) -> None:
    if login.pop("keytab", False):
        login["keytab_file"] = keytab
    with pytest.raises(ConfigurationError, match=words):
        connection(**login).check()


def test_a_realm_cannot_write_settings_of_the_library(tmp_path: Path) -> None:
    file = tmp_path / "k"
    file.write_bytes(b"\x05\x02" + entry("a@X = { }"))
    with pytest.raises(ConfigurationError, match=re.escape("cannot be written to krb5.conf")):
        connection(keytab_file=file, kdcs="kdc").check()


def test_logins_are_not_mixed(keytab: Path) -> None:
    def check(**changed: Any) -> None:
        KafkaConnection(bootstrap_servers="kafka:9092", **changed).check()

    with pytest.raises(ConfigurationError, match="without saslMechanism GSSAPI"):
        check(kerberos=KerberosLogin(keytab_file=keytab))
    with pytest.raises(ConfigurationError, match="GSSAPI has no user name and password"):
        check(sasl_mechanism="GSSAPI", sasl_username="a")


def test_the_library_is_told_once_what_it_needs_and_starts_no_program(keytab: Path) -> None:
    login = KerberosLogin(keytab_file=keytab, kdcs="kdc.example.org,[fd00::1]:750")
    options = connection(keytab_file=keytab).check().librdkafka_options()
    assert options["sasl.mechanism"] == "GSSAPI"
    assert options["sasl.kerberos.service.name"] == "kafka"
    assert options["sasl.kerberos.min.time.before.relogin"] == 0
    login.prepare_process()
    login.prepare_process()
    assert os.environ["KRB5_CLIENT_KTNAME"] == f"FILE:{keytab}"
    assert os.environ["KRB5CCNAME"].startswith("MEMORY:")
    written = Path(os.environ["KRB5_CONFIG"]).read_text()
    assert "default_realm = EXAMPLE.ORG" in written
    assert written.count("  kdc = ") == 2
    assert "kdc = [fd00::1]:750\n" in written


def test_two_keytabs_of_one_principal_are_one_login(keytab: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(keytab.read_bytes())
    KerberosLogin(keytab_file=keytab).prepare_process()
    KerberosLogin(keytab_file=copy).prepare_process()
    copy.write_bytes(b"\x05\x02" + entry("other@EXAMPLE.ORG"))
    with pytest.raises(ConfigurationError, match="two logins of Kerberos"):
        KerberosLogin(keytab_file=copy).prepare_process()
    with pytest.raises(ConfigurationError, match="two logins of Kerberos"):
        KerberosLogin().prepare_process()


def test_without_a_keytab_the_user_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", "FILE:/tmp/mine")
    KerberosLogin().prepare_process()
    assert os.environ["KRB5CCNAME"] == "FILE:/tmp/mine"
    assert "KRB5_CONFIG" not in os.environ


def test_local_kdcs_are_refused_in_pods(keytab: Path) -> None:
    login = KerberosLogin(keytab_file=keytab, kdcs="127.0.0.1")
    found = KafkaConnection(
        bootstrap_servers="192.0.2.1:9092", sasl_mechanism="GSSAPI", kerberos=login, refuses_local=True
    )
    with pytest.raises(ConfigurationError, match=r"The KDC 127.0.0.1:88"):
        found.check_bootstrap_servers()


def test_a_client_without_kerberos_says_so(keytab: Path) -> None:
    """The wheel of confluent-kafka has none; a client that has it is tried on the test cluster."""
    with pytest.raises(
        ConfigurationError, match="is built without GSSAPI; the images of Gapless have a client with it"
    ):
        new_admin(connection(keytab_file=keytab).check())


def test_a_command_ends_with_that_sentence(keytab: Path) -> None:
    arguments = ["--bootstrap-servers=127.0.0.1:1", "--sasl-mechanism=GSSAPI", f"--kerberos-keytab-file={keytab}"]
    ended = subprocess.run(
        [Path(sys.executable).with_name("gapless"), "doctor", *arguments], check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "built without GSSAPI" in ended.stderr


def spec(**login: Any) -> dict[str, Any]:
    sasl = {"mechanism": "GSSAPI", "kerberos": login}
    return {"bootstrapServers": "kafka:9092", "allowedTopics": ("*",), "sasl": sasl}


LOGIN: dict[str, Any] = {"keytabSecret": {"name": "login"}, "kdcs": ("kdc.example.org", "kdc-2:750")}


@pytest.mark.parametrize("more", [{}, {"principal": "gapless@EXAMPLE.ORG", "serviceName": "broker"}])
def test_a_pod_gets_the_settings_and_the_keytab_of_its_connection(more: dict[str, str], tmp_path: Path) -> None:
    kafka = KafkaConnectionSpec.model_validate(spec(**LOGIN, **more))
    settings = kafka_settings(kafka, str(tmp_path))
    assert {str(tmp_path / file) for _, file, _ in kafka_secrets(kafka)} == {settings["kerberosKeytabFile"]}
    by_name = {setting.name: setting for setting in KAFKA_SETTINGS}
    found = unchecked_connection_from({name: by_name[name].parse(text) for name, text in settings.items()})
    assert found.sasl_mechanism == "GSSAPI"
    assert found.kerberos.kdc_addresses == [("kdc.example.org", 88), ("kdc-2", 750)]
    assert (found.kerberos.principal, found.kerberos.service_name) == (more.get("principal"), more.get("serviceName"))


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ({**LOGIN, "kdcs": ("kdc:88:1",)}, "write each KDC as a host"),
        ({**LOGIN, "kdcs": ("kdc }",)}, "write each KDC as a host"),
        ({**LOGIN, "kdcs": ("kdc", "localhost:88")}, "a KDC that is reachable from other machines"),
        ({**LOGIN, "kdcs": ("127.0.0.1",)}, "a KDC that is reachable from other machines"),
        ({**LOGIN, "kdcs": ()}, "kdcs"),
        ({"kdcs": ("kdc",)}, "keytabSecret"),
    ],
)
def test_what_a_pod_could_not_use_is_refused(login: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KafkaConnectionSpec.model_validate(spec(**login))


def test_a_mechanism_has_only_its_own_login() -> None:
    for sasl, words in (
        ({"mechanism": "GSSAPI"}, "GSSAPI requires kerberos"),
        ({"mechanism": "GSSAPI", "kerberos": LOGIN, "username": "a"}, "GSSAPI requires kerberos"),
        ({"mechanism": "OAUTHBEARER", "kerberos": LOGIN}, "OAUTHBEARER requires oauth"),
        ({"username": "a", "passwordSecret": {"name": "p"}, "kerberos": LOGIN}, "neither oauth nor kerberos"),
    ):
        with pytest.raises(ValueError, match=words):
            KafkaConnectionSpec.model_validate({**spec(), "sasl": sasl})


def test_hosts_and_images_have_one_version_of_the_client() -> None:
    """The images build its C library again, with Kerberos, from the sources of the same version."""
    text = (ROOT / "images" / "client" / "constraints.txt").read_text()
    [version] = re.findall(r"^confluent-kafka==(\S+)$", text, re.MULTILINE)
    locks = [
        ROOT / "requirements.lock",
        *(ROOT / "images").glob("*/requirements.lock"),
        *(ROOT / "release").glob("*.lock"),
    ]
    pinned = {
        lock: found[1]
        for lock in locks
        if (found := re.search(r"^confluent-kafka==(\S+)", lock.read_text(), re.MULTILINE))
    }
    assert len(pinned) == 5
    assert set(pinned.values()) == {version}
    for module in ("reading", "writing"):
        assert f"install the version {version}." in (ROOT / f"kafka/gapless_kafka/{module}/headers.py").read_text()


def test_each_cluster_of_a_command_has_the_defaults_of_a_single_one() -> None:
    settings = settings_of_cluster("target", required=True, group="Target")
    assert [setting.default_text for setting in settings] == [setting.default_text for setting in KAFKA_SETTINGS]
