"""The proof that storage class, encryption and tags stand in the requests that write objects, in parts or not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place

pytestmark = pytest.mark.integration

_STARTED = b"""<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>u</UploadId>
</InitiateMultipartUploadResult>"""
_DONE = b"""<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><ETag>"e"</ETag>
</CompleteMultipartUploadResult>"""


class Listener(ThreadingHTTPServer):
    """Takes every upload and keeps the heads of the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, str]]] = []


class Handler(BaseHTTPRequestHandler):
    server: Listener

    def do_PUT(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(_STARTED if "?uploads" in self.path else _DONE)

    def _answer(self, content: bytes) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        heads = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((f"{self.command} {self.path}", heads))
        self.send_response(200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(("size", "request_line"), [(10, "PUT /bucket/p/k"), (11 << 20, "POST /bucket/p/k?uploads")])
def test_objects_are_written_as_the_settings_say(
    listener: Listener, tmp_path: Path, size: int, request_line: str
) -> None:
    access = S3Access(
        f"http://127.0.0.1:{listener.server_port}",
        storage_class="STANDARD_IA",
        encryption="aws:kms",
        kms_key_id="key",
        tags=(("team", "logs"),),
    )
    (tmp_path / "file").write_bytes(b"x" * size)
    open_place(parse_place("s3://bucket/p"), access).put("k", tmp_path / "file")
    (found,) = (heads for line, heads in listener.requests if line.startswith(request_line))
    assert found["x-amz-storage-class"] == "STANDARD_IA"
    assert found["x-amz-tagging"] == "team=logs"
    assert found["x-amz-server-side-encryption"] == "aws:kms"
    assert found["x-amz-server-side-encryption-aws-kms-key-id"] == "key"
    parts = [line for line, _ in listener.requests if "partNumber" in line]
    assert len(parts) == (3 if size > 5 << 20 else 0)
    assert not [line for line, heads in listener.requests if "x-amz-copy-source" in heads]
