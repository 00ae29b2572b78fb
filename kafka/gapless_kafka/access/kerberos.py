"""How a client logs in with Kerberos (GSSAPI): the keytab, the KDCs, and what the Kerberos library is told.

The library gets a ticket from the keytab when a client connects, and a new one before that expires. librdkafka would
start the program kinit through a shell instead, with names from the settings in its command.

The library reads its settings from the environment of the process, so one process can log in as one principal.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from gapless_api.base.errors import ConfigurationError

_KDC = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::(?P<port>[0-9]{1,5}))?")
_SERVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_REALM = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_KDC_PORT = 88
_KEYTAB = b"\x05\x02"
"""The first bytes of every keytab since Kerberos 5, release 1.0."""
_MEMORY = "MEMORY:gapless"
"""Tickets are kept in the process alone, so that no other program's ticket is used or replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Where the ticket of a login comes from. It holds paths and names, never a key."""

    keytab_file: Path | None = None
    """The keys of the principal; ``None`` for the ticket in the user's cache, which kinit has written."""
    principal: str | None = None
    """The first principal of the keytab, to verify that; ``None`` for any."""
    service_name: str | None = None
    """The first part of the brokers' principals; ``None`` for kafka."""
    kdcs: str | None = None
    """``host`` or ``host:port``, separated by commas; ``None`` for those of the system's krb5.conf."""

    @property
    def is_given(self) -> bool:
        """Whether any setting is given."""
        return self.keytab_file is not None or any((self.principal, self.service_name, self.kdcs))

    @property
    def kdc_addresses(self) -> list[tuple[str, int]]:
        """Host and port of each KDC. Raises ConfigurationError."""
        addresses = []
        for text in self.kdcs.split(",") if self.kdcs else ():
            match = _KDC.fullmatch(text.strip())
            port = int(match["port"] or _KDC_PORT) if match is not None else 0
            if match is None or not 1 <= port <= 65535:
                raise ConfigurationError(
                    f"The address {text.strip()!r} in kerberosKdcs is not a host or host:port; write it like "
                    f"kdc.example.org or kdc.example.org:88."
                )
            addresses.append((match["host"], port))
        return addresses

    def check(self) -> None:
        """Check that the settings fit together, and that the keytab can be used. Raises ConfigurationError."""
        if self.service_name is not None and not _SERVICE.fullmatch(self.service_name):
            raise ConfigurationError(
                f"kerberosServiceName {self.service_name!r} is not the name of a service; give the first part of the "
                f"brokers' principals, such as kafka for kafka/broker.example.org@EXAMPLE.ORG."
            )
        if self.keytab_file is None:
            given = {"kerberosPrincipal": self.principal, "kerberosKdcs": self.kdcs}
            alone = next((name for name, value in given.items() if value), None)
            if alone is not None:
                raise ConfigurationError(
                    f"{alone} is given without kerberosKeytabFile; give the keytab, or remove {alone}: without a "
                    f"keytab, the ticket of the user's cache and the system's krb5.conf are used."
                )
            return
        principal = self._first_principal(self.keytab_file)
        if self.principal is not None and self.principal not in {principal, principal.rpartition("@")[0]}:
            raise ConfigurationError(
                f"The first principal in the keytab {self.keytab_file} is {principal}, and kerberosPrincipal is "
                f"{self.principal}; the first one logs in: write a keytab of {self.principal} alone, for example with "
                f"ktutil, or correct kerberosPrincipal."
            )
        if self.kdc_addresses and not _REALM.fullmatch(principal.rpartition("@")[2]):
            raise ConfigurationError(
                f"The realm of {principal} in the keytab {self.keytab_file} cannot be written to krb5.conf; remove "
                f"kerberosKdcs, and configure the realm in the system's krb5.conf."
            )

    def librdkafka_options(self) -> dict[str, str | int]:
        """Properties for a librdkafka client; it starts no program, because the library gets the tickets."""
        return {
            "sasl.kerberos.service.name": self.service_name or "kafka",
            "sasl.kerberos.min.time.before.relogin": 0,
        }

    def prepare_process(self) -> None:
        """Tell the Kerberos library of this process about keytab and KDCs. Call it before a client is created.

        Raises:
            ConfigurationError: the keytab cannot be used, or the process already logs in with another one.
        """
        global _prepared  # noqa: PLW0603 -- the environment is one for the process, too
        principal = self._first_principal(self.keytab_file) if self.keytab_file is not None else ""
        login = (principal, self.kdcs or "")
        if _prepared is not None and _prepared != login:
            raise ConfigurationError(
                "Two clusters are to be reached with two logins of Kerberos, and the Kerberos library has one for a "
                "process; give both the same principal and kerberosKdcs, or log in to one of them in another way."
            )
        if _prepared is None and self.keytab_file is not None:
            os.environ["KRB5_CLIENT_KTNAME"] = f"FILE:{self.keytab_file}"
            os.environ["KRB5CCNAME"] = _MEMORY
            if self.kdcs:
                realm = principal.rpartition("@")[2]
                os.environ["KRB5_CONFIG"] = _in_memory(_krb5_conf(realm, self.kdc_addresses))
        _prepared = login

    def _first_principal(self, keytab: Path) -> str:
        try:
            content = keytab.read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"The keytab {keytab} of kerberosKeytabFile cannot be read: {error.strerror}; correct the path or the "
                f"rights."
            ) from None
        principal = first_principal(content)
        if principal is None:
            raise ConfigurationError(
                f"The file {keytab} of kerberosKeytabFile is not a keytab with a principal; write one with ktadd of "
                f"kadmin, or with ktutil."
            )
        return principal


_prepared: tuple[str, str] | None = None
"""Principal and KDCs of this process; the principal is empty for the ticket of the user's cache."""


def first_principal(keytab: bytes) -> str | None:
    """Return the principal of a keytab's first entry, which the Kerberos library logs in with.

    Args:
        keytab: the content, in the format 0x502 of MIT Kerberos.

    Returns:
        ``name@REALM``; ``None`` for what is not a keytab, has no entry, or a principal with control characters.
    """
    if not keytab.startswith(_KEYTAB):
        return None
    position = len(_KEYTAB)
    try:
        (size,) = struct.unpack_from(">i", keytab, position)
        while size < 0:  # the hole of an entry that was removed
            position += 4 - size
            (size,) = struct.unpack_from(">i", keytab, position)
        entry = keytab[position + 4 : position + 4 + size]
        (count,) = struct.unpack_from(">H", entry)
        texts, at = [], 2
        for _ in range(count + 1):
            (length,) = struct.unpack_from(">H", entry, at)
            text = entry[at + 2 : at + 2 + length]
            if len(text) != length:
                return None
            texts.append(text.decode())
            at += 2 + length
    except (struct.error, UnicodeDecodeError):
        return None
    realm, *names = texts
    principal = f"{'/'.join(names)}@{realm}"
    return principal if names and realm and size > 0 and principal.isprintable() else None


def _krb5_conf(realm: str, kdcs: list[tuple[str, int]]) -> str:
    """Return a krb5.conf for one realm. The names of brokers are used as they are, without the domain name system."""
    return (
        f"[libdefaults]\ndefault_realm = {realm}\ndns_lookup_kdc = false\ndns_lookup_realm = false\nrdns = false\n"
        f"dns_canonicalize_hostname = false\nudp_preference_limit = 1\n[realms]\n{realm} = {{\n"
        + "".join(f"  kdc = {host}:{port}\n" for host, port in kdcs)
        + "}\n"
    )


def _in_memory(text: str) -> str:
    """Return the path of a file that exists while this process, or a fork of it, runs."""
    if not hasattr(os, "memfd_create"):
        raise ConfigurationError(
            f"kerberosKdcs needs Linux, and this is {sys.platform}; remove it, and name the KDCs in the system's "
            f"krb5.conf."
        )
    descriptor = os.memfd_create("krb5.conf")
    os.write(descriptor, text.encode())
    return f"/proc/self/fd/{descriptor}"
