"""The fuzz targets of the sender's inputs: packets, settings, rules, keys, checkpoints.

Must not know how inputs are generated.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import warnings

from fuzz.key_cost import check_cost
from fuzz.target import Target, as_file
from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_api.keys.pem_files import pkcs8_pem, read_certificates, read_private_key
from gapless_api.keys.signatures import verifier_from_file
from gapless_sender.replay import checkpoint, saved_progress
from gapless_sender.replay.input_filter import InputFilter
from gapless_sender.settings.resend import RESEND
from gapless_sender.settings.selection import SelectionSettings
from gapless_sender.source.plan import select
from gapless_sender.wire.encryption import KeyExchange, SessionKey
from gapless_sender.wire.packets import MAX_FRAGMENTS, packetize
from kit.peer import reassembly
from kit.peer.strict_packets import MalformedPacketError, Reassembler, parse_packet

_ENCRYPTED = re.compile(b"-----BEGIN ENCRYPTED PRIVATE KEY-----([^-]*)-----END ENCRYPTED PRIVATE KEY-----")
CHEAP_ROUNDS = 4096
"""The product accepts keys that take a second to decrypt; a million inputs would then take two weeks."""
CHEAP_PATTERN_BYTES = 8 * 1024 * 1024
r"""RE2's default memory limit; it rejects ``\pL{1000}``, which takes a second to compile."""

PASSWORD = b"correct horse"
_SESSION_KEY = SessionKey(bytes(32))
_IDENTITY = {"bundle": "0123", "topic": "transfer"}


def _packets(content: bytes) -> None:
    """Parse datagrams, each after two bytes of length; the highest bit of the length corrects the checksum.

    The kit's receiver, which was written independently, must parse the same packets and messages.
    """
    ours, theirs = Reassembler(max_pending=8), reassembly.FragmentCache(max_entries=8)
    refused = None
    while content:
        length = int.from_bytes(content[:2], "big")
        datagram, content = content[2 : 2 + (length & 0x7FFF)], content[2 + (length & 0x7FFF) :]
        if length & 0x8000:
            datagram = _with_checksum(datagram)
        their_packet = None
        with contextlib.suppress(reassembly.RefusedDatagramError):
            their_packet = reassembly.parse(datagram, MAX_FRAGMENTS)
        try:
            packet = parse_packet(datagram)
        except MalformedPacketError as error:
            refused = error
            # The peer accepts impossible fragment numbers, and then waits forever.
            assert their_packet is None or not 1 <= their_packet.number <= their_packet.announced
            continue
        assert their_packet is not None
        assert (packet.packet_type, packet.number, packet.fragments, packet.payload) == (
            their_packet.kind,
            their_packet.number,
            their_packet.announced,
            their_packet.payload,
        )
        message = ours.add(packet)
        theirs.add(their_packet, 0.0)
        assert len(ours) <= 8
        if message is not None and packet.fragments == 1:
            size = len(datagram) + (not packet.payload)
            assert packetize(message.packet_type, message.packet_id, message.body, size) == [datagram]
    if refused is not None:
        raise refused


def _with_checksum(datagram: bytes) -> bytes:
    end = 7 + int.from_bytes(datagram[5:7], "big")
    if len(datagram) < end + 6:
        return datagram
    payload = datagram[end + 6 :]
    check = hashlib.md5(payload, usedforsecurity=False).hexdigest()[28:].encode()
    return datagram[:end] + check + len(payload).to_bytes(2, "big") + payload


def _properties(content: bytes) -> None:
    """Read a properties file, and select offsets by its settings."""
    values = resolve(RESEND, file=as_file(content, "resend.properties"), environment={}, options={}).values
    if values["resendFileName"] is None:
        select(SelectionSettings.of(values), None)


def _filter_rules(content: bytes) -> None:
    """Apply rules to the value after a zero byte; a leading f puts the rules into a file."""
    rules, _, value = content.partition(b"\0")
    if rules.startswith(b"f"):
        text = str(as_file(rules[1:], "rules.txt"))
    else:
        text = rules.decode("utf-8", "surrogateescape")
        names_file = text.strip().startswith("config/") or text.strip().endswith(".txt")
        if text.strip().startswith("/") or (names_file and not text.isprintable()):
            return  # a path on this machine, or an unprintable one
    found = InputFilter.parse(text)
    assert found.denied([value]) == [found.denies(value)]


def _filter_decisions(content: bytes) -> None:
    """Check the decisions of rules: lines of a letter (a, d) and a pattern; after a zero byte, one value per line.

    The first line d makes deny the default action.
    """
    first, _, rest = content.partition(b"\n")
    rules, _, values = rest.partition(b"\0")
    lines = []
    for line in rules.decode("utf-8", "surrogateescape").split("\n"):
        with contextlib.suppress(ConfigurationError):
            rule = f"{'deny' if line[:1] == 'd' else 'allow'}:{line[1:]}"
            if len(InputFilter.parse(rule).rules) == 1:  # a comma may begin another rule
                lines.append(rule)
    check_decisions("\n".join(lines), "deny" if first == b"d" else "allow", values.split(b"\n"))


def check_decisions(rules: str, default_action: str, values: list[bytes]) -> None:
    """Check that a list of rules decides like the first of its rules that matches on its own."""
    together = InputFilter.parse(rules, default_action)
    alone = [
        (line.startswith("deny"), InputFilter.parse(f"deny:{line.partition(':')[2]}"))
        for line in rules.split("\n")
        if line
    ]
    for value, denied in zip(values, together.denied(values), strict=True):
        expected = bool(alone) and default_action == "deny"
        for denies, rule in alone:
            if rule.denies(value):
                expected = denies
                break
        assert denied is expected, (rules, value)


def _private_keys(content: bytes) -> None:
    """Read a private key. First byte: p with a password file, n without; D, E, R, S convert DER to PEM."""
    mode, content = content[:1], content[1:]
    labels = {b"D": b"PRIVATE KEY", b"E": b"ENCRYPTED PRIVATE KEY", b"R": b"RSA PRIVATE KEY", b"S": b"EC PRIVATE KEY"}
    if mode in labels:
        content = _as_pem(labels[mode], content)
    content = _without_costly_keys(content)
    password = None if mode == b"n" else as_file(PASSWORD, "password")
    key = read_private_key(as_file(content, "key.pem"), setting="keyFile", password_file=password)
    pkcs8_pem(key)


def _without_costly_keys(content: bytes) -> bytes:
    """Check every encrypted PKCS#8 key, and encode it again, so that exactly the checked bytes are decrypted."""

    def check(match: re.Match[bytes]) -> bytes:
        try:
            der = base64.b64decode(match[1])
            check_cost(der, CHEAP_ROUNDS)
        except ValueError as error:
            raise ConfigurationError(f"The key is not decrypted ({error}); use a cheaper one.") from None
        return _as_pem(b"ENCRYPTED PRIVATE KEY", der)

    return _ENCRYPTED.sub(check, content)


def _certificates(content: bytes) -> None:
    """Read a certificate or public key with every reader; a leading D or P converts DER to PEM."""
    if content[:1] == b"D":
        content = _as_pem(b"CERTIFICATE", content[1:])
    elif content[:1] == b"P":
        content = _as_pem(b"PUBLIC KEY", content[1:])
    path = as_file(content, "certificate.pem")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as for a serial number of zero
        with contextlib.suppress(ConfigurationError):
            verifier_from_file(path)("AAAA", b"signed")
        with contextlib.suppress(ConfigurationError):
            read_certificates(path, setting="caFile")
        KeyExchange.load(path).packets(_SESSION_KEY, 1400)


def _as_pem(label: bytes, der: bytes) -> bytes:
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label, base64.encodebytes(der), label)


def _session_keys(content: bytes) -> None:
    path = as_file(content, "session.key")
    path.chmod(0o600)
    assert len(SessionKey.load(path, series=0).key) == 32


def _checkpoints(content: bytes) -> None:
    """Read a checkpoint; write it again and read the same."""
    path = as_file(content, "resend.checkpoint")
    progress = checkpoint.load(path, _IDENTITY)
    entries = list(progress.as_entries(_IDENTITY))
    path.write_bytes(b"".join(map(saved_progress.encode_line, entries)))
    assert list(checkpoint.load(path, _IDENTITY).as_entries(_IDENTITY)) == entries


_NAMES = tuple(spelling.encode() + b"=" for setting in RESEND.settings for spelling in (setting.name,))

SENDER_TARGETS = (
    Target(
        "packets",
        _packets,
        (MalformedPacketError,),
        tokens=(b"STATUS", b"KEY_UPDATE#", b"\x00\x01\x00\x01", b"\x80\x20"),
    ),
    Target(
        "properties",
        _properties,
        (ConfigurationError,),
        tokens=(*_NAMES, b"\n", b"#", b"2026-11-20T10:00:00Z", b"true", b"auto", b'{"a":"b"}', b"-1", b"1e308", b"8G"),
    ),
    Target(
        "filter-rules",
        _filter_rules,
        (ConfigurationError,),
        tokens=(
            b"allow:",
            b"deny:",
            b",deny:",
            b"(?i)",
            b"[^a]",
            b"{1,3}",
            b"\\pL",
            b"\\x{10FFFF}",
            b"config/",
            b".txt",
        ),
        max_bytes=2048,
    ),
    Target(
        "filter-decisions",
        _filter_decisions,
        (ConfigurationError,),
        tokens=(b"\nd", b"\na", b"\0", b"\\Q", b"\\E", b"\\B", b"\\C", b"(?i)", b"(?P<n>", b"[^a]", b"{1000}", b"\\pL"),
        max_bytes=512,
    ),
    Target("private-keys", _private_keys, (ConfigurationError,), tokens=(b"D", b"E", b"Proc-Type: 4,ENCRYPTED\n")),
    Target("certificates", _certificates, (ConfigurationError,), tokens=(b"-----BEGIN CERTIFICATE-----\n",)),
    Target("session-keys", _session_keys, (ConfigurationError,), max_bytes=128),
    Target(
        "checkpoints",
        _checkpoints,
        (ConfigurationError,),
        tokens=(
            b'{"gaplessCheckpoint":1,"resend":{"bundle":"0123","topic":"transfer"},"partitions":[',
            *(
                b'"%b":' % name
                for name in (b"topic", b"partition", b"cursor", b"sent", b"bounds", b"Expired", b"filled")
            ),
            b"Infinity",
            b"9223372036854775807",
        ),
    ),
)
