"""The fuzz targets of files that programs of Kafka wrote: properties, JAAS, topic expressions; and of logins.

Must not know how inputs are generated.
"""

from __future__ import annotations

from fuzz.target import Target, as_file
from gapless_api.base.errors import ConfigurationError
from gapless_api.base.quantities import regular_expression
from gapless_api.keys.pem_files import read_password
from gapless_kafka.access.kerberos import KerberosLogin, first_principal
from gapless_mirror.settings.jaas import read_jaas
from gapless_mirror.settings.java_patterns import python_pattern
from gapless_mirror.settings.java_properties import read_java_properties
from gapless_mirror.settings.mm2 import is_mm2, translate_mm2
from gapless_mirror.settings.old_mirror import translate_old_mirror

_NAMES = ("orders", "a", "log-1.debug", "A_b.0", "a" * 249)


def _mirror_files(content: bytes) -> None:
    """Translate a file of MirrorMaker 2, or both files of the first mirror."""
    file = as_file(content)
    properties = read_java_properties(file)
    if is_mm2(properties):
        translate_mm2(properties, None, file=file)
    else:
        translate_old_mirror(file, file)


def _jaas(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    module = read_jaas(text)
    assert module.name in text


def _topic_expressions(content: bytes) -> None:
    """Translate an expression of Java, and match names with it; see also the comparison with Java."""
    pattern = regular_expression(python_pattern(content.decode("utf-8", "replace")))
    for name in _NAMES:
        pattern.fullmatch(name)


def _password_files(content: bytes) -> None:
    password = read_password(as_file(content), setting="keyPasswordFile")
    assert password in content or not content.isascii()


def _keytabs(content: bytes) -> None:
    """Read the principal of a keytab, which becomes a part of a krb5.conf."""
    KerberosLogin(keytab_file=as_file(content), kdcs="kdc").check()
    principal = first_principal(content) or ""
    realm = principal.rpartition("@")[2]
    assert realm.encode() in content
    assert not set(realm) & set(" \n[]{}=#;")


MIRROR_TARGETS = (
    Target(
        "mirror-files",
        _mirror_files,
        (ConfigurationError,),
        tokens=(
            b"clusters=A,B\n",
            b"A->B.",
            b"enabled=true\n",
            b"topics=",
            b"bootstrap.servers=",
            b"source.",
            b"${env:",
        ),
    ),
    Target("jaas", _jaas, (ValueError,), tokens=(b" required ", b"username=", b'"', b"\\", b";"), max_bytes=512),
    Target(
        "topic-expressions",
        _topic_expressions,
        (ValueError,),
        tokens=(b"&&[", b"\\Q", b"\\E", b"(?i)", b"\\p{", b"(?:", b"{2,", b"++"),
        max_bytes=128,
    ),
    Target(
        "password-files", _password_files, (ConfigurationError,), tokens=(b"\xff\xfe", b"\xef\xbb\xbf"), max_bytes=128
    ),
    Target("keytabs", _keytabs, (ConfigurationError,), tokens=(b"\x05\x02", b"\0\x01\0"), max_bytes=256),
)
