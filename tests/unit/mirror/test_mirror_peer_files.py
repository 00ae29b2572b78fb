"""The proof that settings files of Kafka's own mirrors mean what they meant, or are refused with the reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.settings.client_properties import (
    CONSUMER,
    MIRROR,
    PRODUCER,
    Mapped,
    NoMeaning,
    Refused,
    Rule,
    mirror_name_of_group,
)
from gapless_mirror.settings.java_properties import read_java_properties
from gapless_mirror.settings.login_properties import SECRETS, SECURITY
from gapless_mirror.settings.mm2 import is_mm2, translate_mm2
from gapless_mirror.settings.mm2_properties import FLOW_RULES, WORKER
from gapless_mirror.settings.old_mirror import translate_old_mirror
from gapless_mirror.topics.names import RenameRule

if TYPE_CHECKING:
    from gapless_mirror.settings.translation import Translation

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "procedures" / "switching-from-mirrormaker.md"
BLOG_CONSUMER = """\
bootstrap.servers=dev:6667
group.id=Mirror_Dev-1
session.timeout.ms=10000
rebalance.max.retries=10
rebalance.backoff.ms=10000
fetch.message.max.bytes=1000000
socket.receive.buffer.bytes=33554432
partition.assignment.strategy=roundrobin
dual.commit.enabled=false
offsets.storage=kafka
exclude.internal.topics=true
metadata.max.age.ms=120000
whitelist="t1,t2"
num.streams=4
"""
BLOG_PRODUCER = """\
metadata.broker.list=lake:6667
compression.codec=gzip
linger.ms=15000
batch.size=50000
buffer.memory=2000000000
max.request.size=1048576
acks=-1
max.in.flight.requests.per.connection=1
retries=5
block.on.buffer.full=true
"""
MM2 = r"""
clusters = A, B
A.bootstrap.servers = a1:9092, \
                      a2:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
B->A.enabled = false
A->B.topics = orders, log\\..*
B->A.topics = other
topics.exclude = log\\.debug.*
refresh.topics.interval.seconds = 60
B.producer.compression.type = zstd
replication.factor = 3
exactly.once.source.support = enabled
tasks.max = 4
"""


def file(folder: Path, text: str, name: str = "some.properties") -> Path:
    found = folder / name
    found.write_text(text, encoding="utf-8")
    return found


def read_mm2(path: Path, flow: str | None) -> Translation:
    return translate_mm2(read_java_properties(path), flow, file=path)


def texts(found: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {name: text for name, (text, _) in found.items()}


def refusal(folder: Path, *, consumer: str = "", producer: str = "", given: tuple[str, ...] = ()) -> str:
    files = file(folder, consumer, "consumer.properties"), file(folder, producer, "producer.properties")
    with pytest.raises(ConfigurationError) as raised:
        translate_old_mirror(*files, given=given)
    return str(raised.value)


def test_files_have_the_syntax_of_java(tmp_path: Path) -> None:
    text = "! one\n#two\n a = b\nc:d\n\te f\n g = h, \\\n    i\nempty\nk\\:l = \\u0041\\.b\nlast=x\\\n"
    found = read_java_properties(file(tmp_path, text))
    assert {key: each.value for key, each in found.items()} == {
        "a": "b",
        "c": "d",
        "e": "f",
        "g": "h, i",
        "empty": "",
        "k:l": "A.b",
        "last": "x",
    }
    assert found["g"].origin.endswith("line 6")


def test_references_are_resolved_where_their_value_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOST", "kafka")
    (tmp_path / "name").write_text("eve")
    elsewhere = file(tmp_path, "port=9092\n", "elsewhere")
    text = f"""\
config.providers=props
config.providers.props.class=org.apache.kafka.common.config.provider.FileConfigProvider
bootstrap.servers=${{env:KAFKA_HOST}}:${{props:{elsewhere}:port}}
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=PlainLoginModule required username="${{dir:{tmp_path}:name}}" password="${{dir:{tmp_path}:password}}";
ssl.provider=${{vault:x:y}}
"""
    found = texts(translate_old_mirror(file(tmp_path, text), None).texts)
    assert found["sourceBootstrapServers"] == "kafka:9092"
    assert (found["sourceSaslUsername"], found["sourceSaslPasswordFile"]) == ("eve", f"{tmp_path}/password")


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("${vault:secret/kafka:servers}", "the configuration provider 'vault'"),
        ("${env:NO_SUCH_VARIABLE}", r"\$\{env:NO_SUCH_VARIABLE\}, which does not exist"),
        ("${dir:/nowhere:servers}", "/nowhere/servers, which cannot be read"),
        ("${file:/nowhere:servers}", "/nowhere cannot be read"),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_refused_by_name(tmp_path: Path, reference: str, sentence: str) -> None:
    line = f"bootstrap.servers={reference}"
    assert re.search(sentence, refusal(tmp_path, consumer=line))
    translate_old_mirror(file(tmp_path, line), None, given=("sourceBootstrapServers",))


def test_a_message_shows_a_reference_and_not_what_it_stands_for(tmp_path: Path) -> None:
    (tmp_path / "hidden").write_text("hunter2")
    reference = f"${{dir:{tmp_path}:hidden}}"
    assert reference in (sentence := refusal(tmp_path, consumer=f"interceptor.classes={reference}"))
    assert "hunter2" not in sentence


def test_a_reference_of_a_flow_that_is_off_is_not_needed(tmp_path: Path) -> None:
    given = file(tmp_path, MM2 + "B->A.topics = ${vault:a:b}\nB.ssl.keystore.password = ${vault:a:b}\n")
    assert read_mm2(given, "A->B").texts


def test_comments_and_values_in_latin_1_are_read_as_java_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "latin"
    path.write_bytes(b"# f\xfcr alle\na=\xe9\n")
    assert read_java_properties(path)["a"].value == "\xe9"


@pytest.mark.parametrize(
    "key",
    [
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.kerberos.keytab.password",
        "basic.auth.credentials.source",
        "some.other.token",
    ],
)
def test_no_message_shows_the_value_of_a_secret(tmp_path: Path, key: str) -> None:
    login = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    for separator in ("=", ":", " "):
        assert "hunter2" not in refusal(tmp_path, consumer=f"{login}{key}{separator}hunter2")
        given = file(tmp_path, f"clusters=A,B\nA->B.enabled=true\nA.{login}A.{key}{separator}hunter2")
        with pytest.raises(ConfigurationError) as raised:
            read_mm2(given, None)
        assert "hunter2" not in str(raised.value)


def test_the_old_mirrors_files_are_taken_as_they_are(tmp_path: Path) -> None:
    found = translate_old_mirror(file(tmp_path, BLOG_CONSUMER, "c"), file(tmp_path, BLOG_PRODUCER, "p"))
    assert texts(found.texts) == {
        "compression": "gzip",
        "name": "mirror-dev-1",
        "sourceBootstrapServers": "dev:6667",
        "targetBootstrapServers": "lake:6667",
        "topicPattern": "t1|t2",
        "topicRefresh": "120",
        "workers": "4",
    }
    lines = [line.partition("=")[0] for line in (BLOG_CONSUMER + BLOG_PRODUCER).splitlines()]
    mapped = {place.split()[1] for _, place in found.texts.values()}
    assert mapped | set(found.ignored) == set(lines)


@pytest.mark.parametrize("value", ["largest", "latest"])
def test_a_start_at_the_end_is_refused_because_it_loses_records(tmp_path: Path, value: str) -> None:
    sentence = refusal(tmp_path, consumer=f"auto.offset.reset={value}")
    assert "would skip what the source has" in sentence
    assert "line 1" in sentence
    smallest = file(tmp_path, "auto.offset.reset=smallest", "s")
    assert list(translate_old_mirror(smallest, None).ignored) == ["auto.offset.reset"]


@pytest.mark.parametrize(
    ("consumer", "producer", "words"),
    [
        ("enable.auto.commit=true", "", "before the records are delivered"),
        ("auto.commit.enable=true", "", "before the records are delivered"),
        ("", "acks=1", "set it to all"),
        ("", "request.required.acks=0", "set it to all"),
        ("", "abort.on.send.failure=false", "would drop records"),
        ("message.handler=com.example.Rename", "", "class of Java"),
        ("interceptor.classes=com.example.Mask", "", "class of Java"),
        ("fetch.message.max.bytes=10485760", "max.request.size=1048576", "10,485,760"),
        ("max.partition.fetch.bytes=10485760", "", "the default in"),
        ("fetch.message.max.bytes=ten", "", "number of bytes"),
        ("metadata.max.age.ms=ten", "", "number of milliseconds"),
        ("auto.ofset.reset=earliest", "", "did you mean auto.offset.reset?"),
        ("security.protocol=TLS", "", "must be one of"),
        ("security.protocol=SSL\nssl.truststore.location=/t.jks", "", "--source-ca-file=FILE"),
        ("security.protocol=SSL\nssl.keystore.location=/k.jks", "", "--source-key-file=FILE"),
        ("security.protocol=SSL\nssl.endpoint.identification.algorithm=", "", "accept any broker"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(tmp_path: Path, consumer: str, producer: str, words: str) -> None:
    assert words in refusal(tmp_path, consumer=consumer, producer=producer)


KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
KEYTAB_LOGIN = (
    f'sasl.jaas.config={KERBEROS_MODULE} required useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" '
    'principal="mirror/host@EXAMPLE.ORG";\n'
)


def kerberos_settings(tmp_path: Path, lines: str) -> dict[str, str]:
    found = translate_old_mirror(file(tmp_path, lines, "c"), None)
    return {name: text for name, text in texts(found.texts).items() if "Sasl" in name or "Kerberos" in name}


@pytest.mark.parametrize("mechanism", ["", "sasl.mechanism=GSSAPI\n"])
def test_the_kerberos_login_of_a_java_client_is_translated(tmp_path: Path, mechanism: str) -> None:
    """GSSAPI is Kafka's default mechanism."""
    lines = f"security.protocol=SASL_SSL\n{mechanism}{KEYTAB_LOGIN}sasl.kerberos.service.name=broker\n"
    assert kerberos_settings(tmp_path, lines + "sasl.kerberos.ticket.renew.jitter=0.05\n") == {
        "sourceSaslMechanism": "GSSAPI",
        "sourceKerberosKeytabFile": "/etc/kafka.keytab",
        "sourceKerberosPrincipal": "mirror/host@EXAMPLE.ORG",
        "sourceKerberosServiceName": "broker",
    }


def test_a_java_client_may_use_the_ticket_of_the_users_cache(tmp_path: Path) -> None:
    lines = f"security.protocol=SASL_PLAINTEXT\nsasl.jaas.config={KERBEROS_MODULE} required useTicketCache=true;\n"
    assert kerberos_settings(tmp_path, lines) == {"sourceSaslMechanism": "GSSAPI"}


MSK = """\
security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="night";
"""


def test_the_login_of_a_java_client_at_amazon_msk_is_translated(tmp_path: Path) -> None:
    found = translate_old_mirror(file(tmp_path, MSK, "c"), None, given=("sourceOauthMskRegion",))
    assert {name: text for name, text in texts(found.texts).items() if "Sasl" in name or "Oauth" in name} == {
        "sourceSaslMechanism": "OAUTHBEARER",
        "sourceOauthMskProfile": "night",
    }
    assert "--source-oauth-msk-region=REGION" in refusal(tmp_path, consumer=MSK)
    assert "option awsRoleArn" in refusal(tmp_path, consumer=MSK.replace("awsProfileName", "awsRoleArn"))


def test_options_of_kerberos_in_java_that_are_not_possible_are_refused(tmp_path: Path) -> None:
    jaas = f'sasl.jaas.config={KERBEROS_MODULE} required ticketCache="/tmp/x";'
    assert "the option ticketCache" in refusal(tmp_path, consumer=f"security.protocol=SASL_SSL\n{jaas}")


def test_properties_of_kerberos_have_no_meaning_for_other_logins(tmp_path: Path) -> None:
    """As in Java; many published files have them beside another mechanism."""
    lines = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=m\nsasl.kerberos.service.name=kafka\n"
    found = translate_old_mirror(file(tmp_path, lines, "c"), None)
    assert found.ignored["sasl.kerberos.service.name"] == "the login is PLAIN"
    assert "sourceKerberosServiceName" not in found.texts


OAUTH = """\
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler
sasl.oauthbearer.token.endpoint.url=https://login.example.org/token
sasl.oauthbearer.expected.audience=kafka
"""
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def test_client_credentials_of_a_java_client_are_translated(tmp_path: Path) -> None:
    login = f'sasl.jaas.config={MODULE} required clientId="m" clientSecret="${{dir:/run/login:secret}}" scope="a b";'
    provider = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
    providers = f"config.providers=dir\nconfig.providers.dir.class={provider}\n"
    texts = translate_old_mirror(file(tmp_path, f"{providers}{OAUTH}{login}", "c"), None).texts
    assert {name: text for name, (text, _) in texts.items() if "auth" in name.lower() or "Sasl" in name} == {
        "sourceSaslMechanism": "OAUTHBEARER",
        "sourceOauthTokenEndpoint": "https://login.example.org/token",
        "sourceOauthClientId": "m",
        "sourceOauthScope": "a b",
        "sourceOauthClientSecretFile": "/run/login/secret",
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            f'sasl.jaas.config={MODULE} required clientId="m" clientSecret="hunter2";',
            "--source-oauth-client-secret-file=FILE",
        ),
        (
            f'sasl.jaas.config={MODULE} required unsecuredLoginStringClaim_sub="hunter2";',
            "unsecuredLoginStringClaim_sub",
        ),
        ("sasl.oauthbearer.client.credentials.client.secret=hunter2", "--source-oauth-client-secret-file=FILE"),
        (
            "sasl.login.callback.handler.class=io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler",
            "class of Java",
        ),
        ("sasl.oauthbearer.assertion.private.key.file=/hunter2", "OAUTHBEARER with client credentials"),
    ],
)
def test_a_token_login_that_cannot_work_here_is_refused(tmp_path: Path, line: str, words: str) -> None:
    message = refusal(tmp_path, consumer=f"{OAUTH}{line}")
    assert words in message
    assert "hunter2" not in message


def test_a_token_file_replaces_the_token_request(tmp_path: Path) -> None:
    login = f'sasl.jaas.config={MODULE} required clientId="m" clientSecret="hunter2";'
    consumer = file(tmp_path, f"{OAUTH}{login}", "c")
    texts = translate_old_mirror(consumer, None, given={"sourceOauthTokenFile": "/run/token"}).texts
    assert "Oauth" not in str(texts)


def test_limits_that_fit_are_no_refusal(tmp_path: Path) -> None:
    consumer = file(tmp_path, "fetch.message.max.bytes=10485760", "c")
    translate_old_mirror(consumer, file(tmp_path, "max.request.size=10485760", "p"))
    translate_old_mirror(consumer, None)


@pytest.mark.parametrize("side", ["consumer", "producer"])
@pytest.mark.parametrize("key", SECRETS)
def test_a_secret_is_refused_and_never_shown(tmp_path: Path, side: str, key: str) -> None:
    value = 'org.apache.PlainLoginModule required username="u" password="hunter2";' if "jaas" in key else "hunter2"
    text = f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n{key}={value}"
    sentence = refusal(tmp_path, **{side: text})  # type: ignore[arg-type]
    prefix = "source" if side == "consumer" else "target"
    assert re.search(rf"line 3\) holds a secret.*--{prefix}-[a-z-]+-file=FILE", sentence)
    assert "hunter2" not in sentence
    given = (SECRETS[key].format(side=prefix),)
    files = {side: file(tmp_path, text, "given")}
    found = translate_old_mirror(files.get("consumer"), files.get("producer"), given=given)
    assert "hunter2" not in repr(found)
    assert key in found.ignored


def test_tls_and_login_become_settings_of_the_connection(tmp_path: Path) -> None:
    text = """\
security.protocol=SASL_SSL
ssl.truststore.location=/etc/ca.pem
ssl.truststore.type=PEM
ssl.keystore.location=/etc/client.pem
ssl.endpoint.identification.algorithm=https
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="mirror" password="hunter2";
"""
    found = translate_old_mirror(file(tmp_path, text), None, given=("sourceSaslPasswordFile",))
    assert texts(found.texts) == {
        "sourceTls": "true",
        "sourceCaFile": "/etc/ca.pem",
        "sourceCertFile": "/etc/client.pem",
        "sourceKeyFile": "/etc/client.pem",
        "sourceSaslMechanism": "SCRAM-SHA-512",
        "sourceSaslUsername": "mirror",
    }


def test_settings_of_tls_count_only_with_a_protocol_that_uses_them(tmp_path: Path) -> None:
    found = translate_old_mirror(file(tmp_path, "ssl.truststore.location=/t.jks\nsasl.mechanism=PLAIN"), None)
    assert found.texts == {}
    assert found.ignored["ssl.truststore.location"] == "security.protocol is PLAINTEXT"


@pytest.mark.parametrize(
    ("group", "name"), [("mirror", "mirror"), ("DWpro_1", "dwpro-1"), ("__", "mirror"), ("x" * 80, "x" * 63)]
)
def test_a_group_becomes_the_name_of_the_mirror(group: str, name: str) -> None:
    assert mirror_name_of_group(group) == name


def test_a_blacklist_leaves_topics_out(tmp_path: Path) -> None:
    found = translate_old_mirror(file(tmp_path, "blacklist=a, b.*"), None)
    pattern = re.compile(found.texts["topicPattern"][0])
    assert [bool(pattern.fullmatch(topic)) for topic in ("a", "bc", "ab", "c")] == [False, False, True, True]


def test_the_only_enabled_flow_of_mirrormaker_2_is_taken(tmp_path: Path) -> None:
    given = file(tmp_path, MM2)
    assert is_mm2(read_java_properties(given))
    found = read_mm2(given, None)
    pattern = re.compile(found.texts["topicPattern"][0])
    assert [bool(pattern.fullmatch(topic)) for topic in ("orders", "log.x", "log.debug.x", "order")] == [
        True,
        True,
        False,
        False,
    ]
    del found.texts["topicPattern"]
    assert texts(found.texts) == {
        "name": "a-b",
        "sourceName": "A",
        "targetName": "B",
        "rename": "{source}.{topic}",
        "sourceBootstrapServers": "a1:9092, a2:9092",
        "targetBootstrapServers": "b:9092",
        "topicRefresh": "60",
        "compression": "zstd",
        "replicationFactor": "3",
    }
    assert {"exactly.once.source.support", "tasks.max", "clusters"} <= set(found.ignored)


def test_of_several_flows_one_is_chosen(tmp_path: Path) -> None:
    both = file(tmp_path, MM2.replace("B->A.enabled = false", "B->A.enabled = true"))
    with pytest.raises(ConfigurationError, match=re.escape("2 flows (A->B, B->A); choose one with --flow=A->B")):
        read_mm2(both, None)
    found = read_mm2(both, "B->A")
    assert found.texts["sourceBootstrapServers"][0] == "b:9092"
    assert "other" in found.texts["topicPattern"][0]
    assert "compression" not in found.texts
    with pytest.raises(ConfigurationError, match="has no flow B->C"):
        read_mm2(both, "B->C")
    with pytest.raises(ConfigurationError, match="no flow that is enabled"):
        read_mm2(file(tmp_path, MM2.replace("true", "false")), None)


def test_the_nearest_property_counts_and_the_policy_becomes_the_rename_rule(tmp_path: Path) -> None:
    text = MM2 + (
        "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
        "refresh.topics.interval.seconds=600\nA->B.refresh.topics.interval.seconds=30\n"
        "sync.group.offsets.enabled=true\nA->B.groups=g.*\nA->B.sync.group.offsets.interval.seconds=20\n"
        "emit.heartbeats.enabled=false\nconsumer.max.poll.records=5\nsource.consumer.client.rack=r\n"
        "security.protocol=SSL\nB.security.protocol=PLAINTEXT\nA.ssl.truststore.location=/a.pem\n"
    )
    found = texts(read_mm2(file(tmp_path, text), None).texts)
    assert (found["rename"], found["topicRefresh"], found["heartbeat"]) == ("{topic}", "30", "false")
    assert (found["sourceTls"], found["targetTls"], found["sourceCaFile"]) == ("true", "false", "/a.pem")
    groups = re.compile(found["groupPattern"])
    assert [bool(groups.fullmatch(name)) for name in ("g1", "connect-x", "h")] == [True, False, False]
    assert found["groupInterval"] == "20"
    text = "A->B.replication.factor=2\n" + MM2
    assert texts(read_mm2(file(tmp_path, text), None).texts)["replicationFactor"] == "2"
    text = MM2 + "replication.policy.separator=_\n"
    assert texts(read_mm2(file(tmp_path, text), None).texts)["rename"] == "{source}_{topic}"


@pytest.mark.parametrize(
    ("lines", "called"),
    [
        ("", "A.orders"),
        ("source.cluster.alias=prod", "prod.orders"),
        ("A->B.source.cluster.alias=prod\nsource.cluster.alias=x", "prod.orders"),
        ("B->A.source.cluster.alias=prod", "A.orders"),
        ("source.cluster.alias=", ".orders"),
        ("replication.policy.separator=\nsource.cluster.alias=\ntarget.cluster.alias=", "orders"),
        ("A->B.replication.policy.separator=\nA->B.source.cluster.alias=", "orders"),
        ("replication.policy.separator=__", "A__orders"),
        ("replication.policy.class=IdentityReplicationPolicy\nreplication.policy.separator=", "orders"),
    ],
)
def test_topics_get_the_names_that_mirrormaker_2_gives_them(tmp_path: Path, lines: str, called: str) -> None:
    found = texts(read_mm2(file(tmp_path, f"{MM2}{lines}\n"), None).texts)
    assert RenameRule(found["rename"], found.get("sourceName", "")).target("orders") == called


@pytest.mark.parametrize("excluded", [None, "debug.*", ""])
def test_internal_topics_are_left_out_whatever_is_excluded(tmp_path: Path, excluded: str | None) -> None:
    text = "clusters=A,B\nA->B.enabled=true\ntopics=.*\nreplication.policy.separator=_\n"
    if excluded is not None:
        text += f"topics.exclude={excluded}\n"
    pattern = re.compile(read_mm2(file(tmp_path, text), None).texts["topicPattern"][0])
    internal = (
        "__consumer_offsets",
        "mm2-offset-syncs.B.internal",
        "B.checkpoints.internal",
        "x-internal",
        "x_internal",
    )
    assert not any(pattern.fullmatch(topic) for topic in internal)
    assert pattern.fullmatch("orders")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("replication.policy.separator=", "give an empty source.cluster.alias"),
        ("replication.policy.class=com.example.Policy", "--rename"),
        ("topic.filter.class=com.example.Filter", "--topic-pattern"),
        ("transforms=mask", "classes of Java"),
        ("A->B.consumer.auto.offset.reset=latest", "would skip"),
        ("A.consumer.auto.offset.reset=latest", "would skip"),
        ("B.producer.acks=1", "set it to all"),
        ("A.consumer.max.partition.fetch.bytes=9999999", "9,999,999"),
        ("A.sasl.jaas.config=x password=hunter2", ""),
        ("topic=orders", "did you mean topics?"),
        ("A->B.topics=(?<x>a)(?<x>b)", "has a group without a valid name of its own (character 13"),
    ],
)
def test_what_cannot_work_in_mirrormaker_2s_file_is_refused(tmp_path: Path, line: str, words: str) -> None:
    security = "A.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN\n" if "sasl" in line else ""
    with pytest.raises(ConfigurationError) as raised:
        read_mm2(file(tmp_path, f"{MM2}{security}{line}\n"), None)
    assert words in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_properties_of_a_connector_may_stand_in_mirrormaker_2s_file(tmp_path: Path) -> None:
    text = MM2.replace("zstd", "gzip") + (
        "source.cluster.alias=A\ntarget.cluster.alias=B\nA->B.producer.override.compression.type=zstd\n"
        "A->B.consumer.override.max.poll.records=5\n"
    )
    found = read_mm2(file(tmp_path, text), None)
    assert {"source.cluster.alias", "target.cluster.alias", "max.poll.records"} <= set(found.ignored)
    with pytest.raises(ConfigurationError, match=re.escape("auto.offset.reset=latest")):
        read_mm2(file(tmp_path, MM2 + "A->B.consumer.override.auto.offset.reset=latest\n"), None)


def test_the_classes_that_kafka_has_by_default_are_accepted(tmp_path: Path) -> None:
    line = "topic.filter.class=org.apache.kafka.connect.mirror.DefaultTopicFilter\n"
    assert "topic.filter.class" in read_mm2(file(tmp_path, MM2 + line), None).ignored


def cell(rule: Rule, *, side: str) -> str:
    if isinstance(rule, Mapped):
        return f"`{rule.setting.format(side=side)}`"
    if isinstance(rule, NoMeaning):
        return f"no meaning: {rule.why}"
    values = " or ".join(f"`{value}`" for value in sorted(rule.values) if value) or "a value"
    return f"refused with {values}; otherwise no meaning: {rule.otherwise}"


def rows() -> list[str]:
    tables = (
        ("consumer", CONSUMER, "source"),
        ("producer", PRODUCER, "target"),
        ("mirror", MIRROR, "source"),
        ("both", SECURITY, "source"),
        ("mm2.properties", {**FLOW_RULES, **WORKER}, ""),
    )
    found = []
    for where, rules, side in tables:
        by_cell: dict[str, list[str]] = {}
        for key, rule in rules.items():
            by_cell.setdefault(cell(rule, side=side), []).append(f"`{key}`")
        found += [f"| {where} | {', '.join(keys)} | {text} |" for text, keys in by_cell.items()]
    found += [f"| both | `{key}` | holds a secret: `{name.format(side='source')}` |" for key, name in SECRETS.items()]
    return found


def test_the_page_lists_every_property_as_the_code_treats_it() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    written = [
        line for line in page if line.startswith(("| consumer |", "| producer |", "| mirror |", "| both |", "| mm2.p"))
    ]
    assert written == rows()


def test_a_refusal_of_single_values_names_them() -> None:
    assert Refused(frozenset({"1"}), "", "").refuses("1")
    assert not Refused(frozenset({"1"}), "", "").refuses("all")


@pytest.mark.parametrize(
    ("line", "setting", "value"),
    [
        ("replication.factor=-1", "replicationFactor", None),
        ("A->B.refresh.topics.interval.seconds=-1", "topicRefresh", None),
        ("refresh.topics.interval.seconds=60", "topicRefresh", "60"),
        ("A->B.source.consumer.security.protocol=SSL", "sourceTls", "true"),
        ("A->B.target.producer.compression.type=gzip", "compression", "gzip"),
        ("A->B.target.producer.override.compression.type=gzip", "compression", "gzip"),
        ("A->B.producer.compression.type=gzip", "compression", "gzip"),
        ("A->B.source.admin.request.timeout.ms=5", "compression", "zstd"),
        ("B.admin.retries=5\nA.producer.acks=all", "compression", "zstd"),
        ("target.producer.compression.type=gzip", "compression", "gzip"),
        ("source.cluster.security.protocol=SSL", "sourceTls", "true"),
        ("A->B.source.cluster.bootstrap.servers=z:1", "sourceBootstrapServers", "z:1"),
        ("target.cluster.bootstrap.servers=z:1", "targetBootstrapServers", "z:1"),
        ("listeners.https.ssl.keystore.location=/x\nlisteners.https.y=1", "compression", "zstd"),
    ],
)
def test_every_scope_and_legal_value_of_mirrormaker_2_is_read(
    tmp_path: Path, line: str, setting: str, value: str | None
) -> None:
    text = MM2.replace("replication.factor = 3\n", "").replace("refresh.topics.interval.seconds = 60\n", "")
    assert texts(read_mm2(file(tmp_path, f"{text}{line}\n"), None).texts).get(setting) == value


def test_the_narrowest_scope_counts(tmp_path: Path) -> None:
    lines = [
        "producer.compression.type=none",
        "B.producer.compression.type=gzip",
        "target.producer.compression.type=snappy",
        "A->B.producer.compression.type=lz4",
        "A->B.target.producer.compression.type=zstd",
    ]
    text = MM2.replace("B.producer.compression.type = zstd\n", "")
    for count, expected in enumerate(("none", "gzip", "snappy", "lz4", "zstd"), start=1):
        found = read_mm2(file(tmp_path, text + "\n".join(lines[:count][::-1])), None)
        assert texts(found.texts)["compression"] == expected


def test_of_aliases_with_dots_the_longest_counts(tmp_path: Path) -> None:
    text = """\
clusters=dc1, dc1.eu
dc1.bootstrap.servers=a:1
dc1.eu.bootstrap.servers=b:2
dc1->dc1.eu.enabled=true
dc1->dc1.eu.topics=orders
dc1.eu.producer.compression.type=gzip
"""
    found = texts(read_mm2(file(tmp_path, text), None).texts)
    assert (found["sourceBootstrapServers"], found["targetBootstrapServers"]) == ("a:1", "b:2")
    assert found["compression"] == "gzip"


def test_a_negative_interval_of_groups_switches_their_translation_off(tmp_path: Path) -> None:
    text = MM2 + "sync.group.offsets.enabled=true\nsync.group.offsets.interval.seconds="
    assert "groupPattern" in read_mm2(file(tmp_path, f"{text}5\n"), None).texts
    assert not {"groupPattern", "groupInterval"} & set(read_mm2(file(tmp_path, f"{text}-1\n"), None).texts)


def test_unknown_properties_are_named_together_with_their_lines(tmp_path: Path) -> None:
    path = file(tmp_path, MM2 + "A.vendor.x=1\ntopic=orders\nA->B.consumer.vendor.y=hunter2\n")
    with pytest.raises(ConfigurationError) as raised:
        read_mm2(path, None)
    message = str(raised.value)
    assert re.search(r"vendor\.x in \S+, line 16; topic line 17 \(did you mean topics\?\)", message), message
    assert "vendor.y line 18" in message
    assert "--ignore-unknown-settings" in message
    assert "hunter2" not in message
    found = translate_mm2(read_java_properties(path), None, file=path, ignore_unknown=True)
    assert {"vendor.x", "topic", "vendor.y"} <= set(found.ignored)
    old = file(tmp_path, "bootstrap.servers=a:1\nvendor.a=1\nvendor.b=2\n", "consumer.properties")
    with pytest.raises(ConfigurationError, match=r"vendor\.a in \S+, line 2; vendor\.b line 3"):
        translate_old_mirror(old, None)
    assert {"vendor.a", "vendor.b"} <= set(translate_old_mirror(old, None, ignore_unknown=True).ignored)


def test_refused_properties_are_named_together_with_the_unknown_ones(tmp_path: Path) -> None:
    text = (
        "bootstrap.servers=a:1\nvendor.a=1\ninterceptor.classes=com.x.Mask\nsecurity.protocol=SASL_SSL\n"
        "sasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="hunter2";\nssl.truststore.location=/t.jks\nmax.partition.fetch.bytes=5000000\n'
    )
    consumer = file(tmp_path, text, "consumer.properties")
    producer = file(tmp_path, "bootstrap.servers=b:1\nvendor.b=1\nmax.request.size=1000\n", "producer.properties")
    with pytest.raises(ConfigurationError) as raised:
        translate_old_mirror(consumer, producer)
    message = str(raised.value)
    for part in (
        f"vendor.a in {consumer}, line 2; vendor.b in {producer}, line 2",
        f"interceptor.classes='com.x.Mask' (in {consumer}, line 3)",
        f"sasl.jaas.config (in {consumer}, line 6) holds a secret",
        f"ssl.truststore.location (in {consumer}, line 7) names a key store",
        "The consumer fetches records of up to 5,000,000 bytes",
    ):
        assert part in message, part
    assert "hunter2" not in message
    flow = file(
        tmp_path, MM2 + "A->B.consumer.interceptor.classes=com.x.Mask\ntopics.exclude=a(?<x>b)\\\\k<x>\nvendor=1\n"
    )
    with pytest.raises(ConfigurationError, match=r"(?s)(?=.*Mask)(?=.*topics\.exclude)(?=.*Unknown property vendor)"):
        read_mm2(flow, None)
