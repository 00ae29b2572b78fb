"""Responses of the API server to a write decide whether it was made; a real HTTP server plays the API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from gapless_api.base.errors import ConfigurationError
from gapless_operator.cli.connection import as_ours
from gapless_operator.shell.api.client import ClusterApi
from gapless_operator.shell.api.errors import ConflictError, RefusedError, UnauthorizedError, UnavailableError

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "north"}}


class Answers(BaseHTTPRequestHandler):
    """Answers every POST with the status of the server's `said`."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said: dict[str, Any] = self.server.said  # type: ignore[attr-defined]
        content = json.dumps(said).encode()
        self.send_response(said["code"])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Answers) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("AlreadyExists", 'secrets "key" already exists'),
        ("Conflict", 'Operation cannot be fulfilled on resourcequotas "few": the object has been modified'),
    ],
)
def test_a_conflict_is_never_the_success_of_creating(server: HTTPServer, reason: str, message: str) -> None:
    server.said = {"code": 409, "reason": reason, "message": message}  # type: ignore[attr-defined]
    with pytest.raises(ConflictError, match=message.split('"', maxsplit=1)[0]):
        api_at(server).create(SECRET)


def test_a_token_that_is_not_accepted_says_nothing_of_rights_and_is_tried_again(server: HTTPServer) -> None:
    server.said = {"code": 401, "reason": "Unauthorized", "message": "Unauthorized"}  # type: ignore[attr-defined]
    with pytest.raises(UnauthorizedError, match=r"with 401: Unauthorized\.$") as refused:
        api_at(server).create(SECRET)
    assert isinstance(refused.value, UnavailableError)
    assert not isinstance(refused.value, RefusedError)
    assert isinstance(as_ours(refused.value), ConfigurationError), "the credentials of a person stay wrong"


def api_at(server: HTTPServer) -> ClusterApi:
    settings = Configuration()
    settings.host = f"http://127.0.0.1:{server.server_port}"
    return ClusterApi(ApiClient(settings))
