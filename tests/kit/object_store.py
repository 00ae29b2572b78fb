"""A real S3-compatible server (S3Proxy over a folder) on this machine. Must not know what is stored in it."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from kit.certificates import Authority
from kit.kafka.jars import JVM_OPTIONS, java
from kit.machine.maven import jars_of
from kit.machine.processes import end, free_ports, start_bound

if TYPE_CHECKING:
    import subprocess

_POM = Path(__file__).with_name("object-store-pom.xml")
_START_SECONDS = 60.0
_REGION = "us-east-1"
_LOGGING = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%level %logger %msg%n</pattern></encoder></appender>
<root level="warn"><appender-ref ref="out"/></root></configuration>
"""


def object_store_jars() -> list[Path]:
    """Return the server's jars, from the cache or from Maven. Raises RuntimeError when Maven fails."""
    return jars_of(_POM, "s3proxy-3.1.0", "S3Proxy 3.1.0 (50 MB of jars, by Maven)")


class ObjectStore:
    """A server that listens on loopback, or at another address of this machine, while the block lasts.

    It checks the signature of every request unless it is anonymous. With TLS its certificate is signed by the CA in
    `ca_file`, and it has a second listener without TLS for the requests of the kit.
    """

    ACCESS_KEY = "tester"
    SECRET_KEY = "secret/of+the tester"  # noqa: S105 -- of a server that lives for a test

    def __init__(self, *, anonymous: bool = False, tls: bool = False, address: str = "127.0.0.1") -> None:
        self._anonymous = anonymous
        self._tls = tls
        self._address = address
        self._temporary = tempfile.TemporaryDirectory(prefix="gapless-s3-")
        self._folder = Path(self._temporary.name)
        self._process: subprocess.Popen[bytes] | None = None
        self.port, secure_port = free_ports(2)
        self._plain = f"http://{address}:{self.port}"
        self.endpoint = f"https://{address}:{secure_port}" if tls else self._plain
        self.ca_file = self._folder / "ca" / "ca.crt"

    def __enter__(self) -> Self:
        jars = os.pathsep.join(map(str, object_store_jars()))
        (self._folder / "objects").mkdir()
        credentials = [f"s3proxy.identity={self.ACCESS_KEY}", f"s3proxy.credential={self.SECRET_KEY}"]
        lines = [
            f"s3proxy.endpoint={self._plain}",
            *(self._tls_settings() if self._tls else []),
            f"s3proxy.authorization={'none' if self._anonymous else 'aws-v2-or-v4'}",
            *([] if self._anonymous else credentials),
            "jclouds.provider=filesystem-nio2",
            f"jclouds.filesystem.basedir={self._folder / 'objects'}",
        ]
        settings, logging = self._folder / "s3proxy.conf", self._folder / "logback.xml"
        settings.write_text("\n".join(lines))
        logging.write_text(_LOGGING)
        options = [*JVM_OPTIONS, f"-Dlogback.configurationFile={logging}", f"-Djava.io.tmpdir={self._folder}"]
        program: list[str | Path] = [java(), *options, "-cp", jars, "org.gaul.s3proxy.Main", "--properties", settings]
        with (self._folder / "log").open("wb") as log:
            self._process = start_bound(program, stdout=log, stderr=log)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end(self._process)
        self._temporary.cleanup()

    def _tls_settings(self) -> list[str]:
        """Write a PKCS#12 key store, as Java needs it, and return the server's TLS settings."""
        pem = Authority(self._folder / "ca").server_store(addresses=[self._address]).read_bytes()
        chain = x509.load_pem_x509_certificates(pem)
        key = load_pem_private_key(pem, None)
        password = "of the tests"  # noqa: S105 -- for a store that lives for a test
        protection = BestAvailableEncryption(password.encode())
        store = self._folder / "server.p12"
        store.write_bytes(pkcs12.serialize_key_and_certificates(b"server", key, chain[0], chain[1:], protection))  # type: ignore[arg-type]
        return [
            f"s3proxy.secure-endpoint={self.endpoint}",
            f"s3proxy.keystore-path={store}",
            f"s3proxy.keystore-password={password}",
        ]

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            try:
                self._request("GET", "/")
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise RuntimeError(f"The object store did not start: {(self._folder / 'log').read_text()[-2000:]}")

    def make_bucket(self, name: str) -> str:
        """Create a bucket and return its name."""
        status = self._request("PUT", f"/{name}")
        if status != http.client.OK:
            raise RuntimeError(f"Could not create the bucket {name}: status {status}.")
        return name

    def content(self, bucket: str, key: str) -> bytes:
        """Return the content of an object, read from the server's folder."""
        return (self._folder / "objects" / bucket / key).read_bytes()

    def keys(self, bucket: str) -> list[str]:
        """Return all keys of a bucket."""
        root = self._folder / "objects" / bucket
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    def _request(self, method: str, path: str) -> int:
        """Send a signed request without a body, and return the status."""
        connection = http.client.HTTPConnection(self._address, self.port, timeout=10)
        try:
            body = b"" if method == "PUT" else None
            connection.request(method, path, body=body, headers=self.signed_headers(method, path))
            return connection.getresponse().status
        finally:
            connection.close()

    def signed_headers(self, method: str, path: str) -> dict[str, str]:
        """Return the headers of a request without a query, signed with Signature Version 4."""
        timestamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        host, payload = f"{self._address}:{self.port}", "UNSIGNED-PAYLOAD"
        headers = {"host": host, "x-amz-content-sha256": payload, "x-amz-date": timestamp}
        names = ";".join(headers)
        listed = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"{method}\n{path}\n\n{listed}\n{names}\n{payload}"
        scope = f"{timestamp[:8]}/{_REGION}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", timestamp, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = f"AWS4{self.SECRET_KEY}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
        )
        return headers
