"""A proxy in front of a real object store: it records every request, and injects the faults of a test.

It forwards requests unchanged, so that signatures stay valid. It forwards conditional puts one at a time, because the
kit's server checks and writes in two steps, and S3 in one. Must not know what is stored.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from kit.object_store import ObjectStore

_TIMEOUT_SECONDS = 60.0
_PIECES_PER_SECOND = 20
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_CONDITIONS = {"if-none-match", "if-match"}


class Request(NamedTuple):
    """A client's request and the status of the response."""

    method: str
    path: str
    """Including the query."""
    headers: Mapping[str, str]
    """By their names in lower case."""
    body_bytes: int
    status: int
    """Of the response; 0 for none."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault for a request; the default is none."""

    status: int = 0
    """Status of an error response."""
    code: str = ""
    """S3 error code."""
    is_cut: bool = False
    """The connection closes without a response, or in the middle of its content if the request is applied."""
    is_silent: bool = False
    """No response until the proxy ends."""
    is_applied: bool = False
    """Whether the server gets the request nevertheless."""
    drops_conditions: bool = False
    """The server gets the request without If-None-Match and If-Match, signed again: it is a store that ignores them."""
    only_condition: str = ""
    """The only header that `drops_conditions` removes, in lower case; empty for both."""
    bytes_per_second: int = 0
    """Rate of the response content; 0 for no limit."""


SLOW_DOWN = Fault(status=503, code="SlowDown")
LOST_ANSWER = Fault(status=504, code="GatewayTimeout", is_applied=True)
CUT = Fault(is_cut=True)
CUT_IN_THE_MIDDLE = Fault(is_cut=True, is_applied=True)
SILENCE = Fault(is_silent=True)
NO_CONDITIONS = Fault(drops_conditions=True)


class Rule:
    """The requests that get a fault."""

    def __init__(self, fault: Fault, method: str, pattern: str, times: float) -> None:
        self.fault = fault
        self.met = 0
        """Number of requests that got the fault."""
        self._method, self._pattern, self._times = method, re.compile(pattern), times

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request gets the fault, and count it."""
        if self._times <= self.met or self._method not in {"", method} or not self._pattern.search(path):
            return False
        self.met += 1
        return True


class StoreProxy:
    """Listens on loopback while the block lasts."""

    def __init__(self, store: ObjectStore) -> None:
        self._server = _Server(store)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.end_connections()
        self._server.server_close()

    @property
    def requests(self) -> list[Request]:
        """All requests so far."""
        return list(self._server.seen)

    def inject(self, fault: Fault, method: str = "", pattern: str = "", times: float = float("inf")) -> Rule:
        """Inject a fault into the next requests.

        Args:
            fault: for each of them.
            method: of the requests; empty for all.
            pattern: regular expression for their path and query; the first matching rule applies.
            times: number of requests that get the fault.
        """
        rule = Rule(fault, method, pattern, times)
        self._server.rules.append(rule)
        return rule

    def heal(self) -> None:
        """Remove all faults."""
        self._server.rules.clear()


class _Server(ThreadingHTTPServer):
    def __init__(self, store: ObjectStore) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store = store
        self.rules: list[Rule] = []
        self.seen: list[Request] = []
        self.lock = threading.Lock()
        self.conditional = threading.Lock()
        self.ended = threading.Event()
        self._open: set[socket.socket] = set()

    def fault_of(self, method: str, path: str) -> Fault:
        with self.lock:
            return next((rule.fault for rule in self.rules if rule.matches(method, path)), Fault())

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self.lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        self.ended.set()
        with self.lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that do not wait for their response."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle_one_request(self) -> None:
        """Forward a request of any method."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline:
            self.close_connection = True
        elif self.parse_request():
            self._forward()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fault = self.server.fault_of(self.command, self.path)
        is_broken = fault.status or fault.is_cut or fault.is_silent
        sent = self._request_headers(fault)
        response = self._request_upstream(body, sent) if fault.is_applied or not is_broken else None
        status = fault.status or (response.status if response is not None and not is_broken else 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append(Request(self.command, self.path, headers, len(body), status))
        if fault.is_silent:
            self.server.ended.wait()
            self.close_connection = True
        elif fault.status:
            self._refuse(fault)
        elif response is None or (fault.is_cut and not response.content):
            self.close_connection = True
        else:
            self._respond(response, fault)

    def _request_headers(self, fault: Fault) -> list[tuple[str, str]]:
        dropped = {fault.only_condition} if fault.only_condition else _CONDITIONS
        if not fault.drops_conditions or not dropped & {name.lower() for name in self.headers}:
            return self.headers.items()
        signed = self.server.store.signed_headers(self.command, self.path)
        return [*signed.items(), ("content-length", self.headers["content-length"])]

    def _request_upstream(self, body: bytes, headers: list[tuple[str, str]]) -> _Response:
        is_conditional = any(name in self.headers for name in _CONDITIONS)
        with self.server.conditional if is_conditional else contextlib.nullcontext():
            connection = http.client.HTTPConnection("127.0.0.1", self.server.store.port, timeout=_TIMEOUT_SECONDS)
            with contextlib.closing(connection):
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in headers:
                    connection.putheader(name, value)
                connection.endheaders(body or None)
                response = connection.getresponse()
                return _Response(response.status, response.reason, dict(response.getheaders()), response.read())

    def _refuse(self, fault: Fault) -> None:
        text = "" if self.command == "HEAD" else f"<Error><Code>{fault.code}</Code><Message>broken</Message></Error>"
        self._respond(_Response(fault.status, fault.code, {"Content-Type": "application/xml"}, text.encode()), Fault())

    def _respond(self, response: _Response, fault: Fault) -> None:
        self.send_response_only(response.status, response.reason)
        for name, value in response.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        length = {name.lower(): value for name, value in response.headers.items()}.get("content-length")
        if self.command != "HEAD":
            length = str(len(response.content))
        if length is not None and response.status != http.client.NO_CONTENT:
            self.send_header("Content-Length", length)
        self.end_headers()
        content = response.content[: len(response.content) // 2] if fault.is_cut else response.content
        piece = max(fault.bytes_per_second // _PIECES_PER_SECOND, 1) if fault.bytes_per_second else len(content) or 1
        for at in range(0, len(content), piece):
            self.wfile.write(content[at : at + piece])
            self.wfile.flush()
            if fault.bytes_per_second:
                time.sleep(1 / _PIECES_PER_SECOND)
        self.close_connection = self.close_connection or fault.is_cut


class _Response(NamedTuple):
    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes
