"""An authorization server of OAuth: an HTTPS endpoint that issues signed tokens to clients with a secret.

Must not know Kafka or the product.
"""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ISSUER, AUDIENCE = "https://login.example.org", "kafka"


class TokenEndpoint:
    """An endpoint at ``https://localhost:PORT/token`` for the grant ``client_credentials``.

    Args:
        store: PEM file with the key and certificates of the server.
        clients: client ID to secret.
        lifetime_seconds: of each token.
    """

    def __init__(self, store: Path, clients: Mapping[str, str], *, lifetime_seconds: float = 300) -> None:
        self._clients = clients
        self._key = rsa.generate_private_key(65537, 2048)
        self.lifetime_seconds = lifetime_seconds
        self.requests: list[dict[str, str]] = []
        """The forms that were posted."""
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, answer = endpoint.answer(self.headers["Authorization"] or "", body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(store)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The URL of the endpoint."""
        return f"https://localhost:{self._server.server_address[1]}/token"

    def answer(self, authorization: str, body: str) -> tuple[int, dict[str, object]]:
        """Return the HTTP status and the content for a request."""
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.requests.append(form)
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        if not client or self._clients.get(client) != secret:
            return 401, {"error": "invalid_client"}
        token = self.token(client, scope=form.get("scope", "kafka"))
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime_seconds)}

    def token(self, subject: str, *, scope: str = "kafka", lifetime_seconds: float | None = None) -> str:
        """Return a signed token for `subject`."""
        now = time.time()
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "scope": scope,
            "iat": int(now) - 1,
            "exp": int(now + (self.lifetime_seconds if lifetime_seconds is None else lifetime_seconds)),
        }
        signed = ".".join(_text(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"

    def write_keys(self, file: Path) -> Path:
        """Write the public key as a JSON web key set, with which others verify the tokens."""
        numbers = self._key.public_key().public_numbers()
        modulus, exponent = (_text(number.to_bytes(256, "big").lstrip(b"\0")) for number in (numbers.n, numbers.e))
        key = {"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", "n": modulus, "e": exponent}
        file.write_text(json.dumps({"keys": [key]}))
        return file

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
