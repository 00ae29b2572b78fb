"""A KDC of Kerberos, Apache Kerby, with the keytabs of its principals. Must not know Kafka or the product."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from kit.kafka.jars import java
from kit.machine.maven import jars_of
from kit.machine.processes import end, free_ports, start_bound, wait_until

REALM = "GAPLESS.TEST"
_POM = Path(__file__).with_name("pom.xml")


def kdc_jars() -> list[Path]:
    """Return the jars of the KDC, from the cache or from Maven. Raises RuntimeError."""
    return jars_of(_POM, "kdc", "Apache Kerby (11 MB of jars, by Maven)")


class Kdc:
    """A KDC over TCP.

    Args:
        folder: for its settings, keytabs and log.
        principals: names without a realm.
        address: where it listens; other machines and pods need one that is not loopback.
    """

    def __init__(self, folder: Path, principals: Sequence[str], *, address: str = "127.0.0.1") -> None:
        self.folder = folder
        self.address = address
        (self.port,) = free_ports(1)
        self._principals = principals
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host_and_port(self) -> str:
        """The address for ``kerberosKdcs``."""
        return f"{self.address}:{self.port}"

    @property
    def krb5_conf(self) -> Path:
        """The krb5.conf of the realm, for Java and MIT Kerberos."""
        file = self.folder / "own-krb5.conf"
        file.write_text(
            f"[libdefaults]\n  default_realm = {REALM}\n  rdns = false\n  dns_canonicalize_hostname = false\n"
            f"  udp_preference_limit = 1\n[realms]\n  {REALM} = {{\n    kdc = {self.host_and_port}\n  }}\n"
        )
        return file

    def keytab(self, *principals: str) -> Path:
        """Return a keytab of these principals alone, in this order."""
        everything = keytab_entries((self.folder / "all.keytab").read_bytes())
        wanted = [entry for name in principals for entry in everything if entry[0] == f"{name}@{REALM}"]
        assert wanted
        file = self.folder / f"{'-'.join(principals).replace('/', '-')}.keytab"
        file.write_bytes(b"\x05\x02" + b"".join(content for _, content in wanted))
        return file

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "kdc.properties"
        settings.write_text(
            f"org.name=GAPLESS\norg.domain=TEST\nkdc.bind.address={self.address}\nkdc.port={self.port}\ntransport=TCP\n"
            "instance=kafka\ndebug=false\nmax.ticket.lifetime=86400000\nmax.renewable.lifetime=604800000\n"
        )
        jars = os.pathsep.join(str(jar) for jar in kdc_jars())
        program: list[str | Path] = [java(), "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars]
        main: list[str | Path] = [
            "org.apache.hadoop.minikdc.MiniKdc",
            self.folder,
            settings,
            self.folder / "all.keytab",
        ]
        log_file = self.folder / "kdc.log"
        with log_file.open("wb") as log:
            command: list[str | Path] = [*program, *main, *self._principals]
            self._process = start_bound(command, stdout=log, stderr=subprocess.STDOUT)

        def is_running() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, log_file.read_text()
            return "Standalone MiniKdc Running" in log_file.read_text()

        wait_until(is_running, what="the KDC's first line")
        return self

    def stop(self) -> None:
        """End the KDC."""
        if self._process is not None:
            end(self._process, patience_seconds=5)
            self._process = None

    def __exit__(self, *_: object) -> None:
        self.stop()


def keytab_entries(keytab: bytes) -> list[tuple[str, bytes]]:
    """Return each entry of a keytab: its principal, and the bytes of the entry with its length."""
    entries, position = [], 2
    while position + 4 <= len(keytab):
        (size,) = struct.unpack_from(">i", keytab, position)
        content = keytab[position : position + 4 + abs(size)]
        position += len(content)
        if size > 0:
            texts, at = [], 6
            for _ in range(int.from_bytes(content[4:6], "big") + 1):
                length = int.from_bytes(content[at : at + 2], "big")
                texts.append(content[at + 2 : at + 2 + length].decode())
                at += 2 + length
            entries.append((f"{'/'.join(texts[1:])}@{texts[0]}", content))
    return entries
