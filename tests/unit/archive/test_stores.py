"""The proof of what is told and done about stores of all kinds: short-lived keys, and what one does not have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_archive.store import access as under_test
from gapless_archive.store import object_store
from gapless_archive.store.access import S3Access
from gapless_archive.store.object_store import open_store


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str | None]]]:
    """A store that has every object, its address, and the session tokens that it was asked with."""
    tokens: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            tokens.append(self.headers.get("x-amz-security-token"))
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.send_header("ETag", '"e"')
            self.send_header("Last-Modified", "Mon, 23 Nov 2026 02:00:00 GMT")
            self.end_headers()

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(501)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", tokens
        server.shutdown()


def access(folder: Path, endpoint: str) -> S3Access:
    for name in ("key", "secret", "token"):
        (folder / name).write_text(f"{name}-1\n")
    return S3Access(
        endpoint,
        access_key_file=folder / "key",
        secret_key_file=folder / "secret",
        session_token_file=folder / "token",
    )


def test_a_session_token_is_read_again(
    asked: tuple[str, list[str | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "_KEY_LIFETIME", timedelta(0))
    endpoint, tokens = asked
    store = open_store("bucket", access(tmp_path, endpoint))
    assert store.size("a") == 5
    (tmp_path / "token").write_text("token-2\n")
    store.size("a")
    (tmp_path / "token").unlink()  # it is being replaced
    store.size("a")
    assert tokens == ["token-1", "token-2", "token-2"]


def test_a_session_token_that_is_not_there_at_first_is_named(tmp_path: Path) -> None:
    given = access(tmp_path, "http://127.0.0.1:1")
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigurationError, match="token with the session token cannot be read"):
        open_store("bucket", given)


def test_a_store_without_what_is_needed_is_no_store_that_is_away(
    asked: tuple[str, list[str | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_FIRST_PAUSE", timedelta(milliseconds=1))
    store = open_store("bucket", access(tmp_path, asked[0]))
    with pytest.raises(ConfigurationError, match=r"does not implement a feature .*conditional puts"):
        store.replace("a", b"content", None)
