"""The program of `helm test`, run against a server that answers as an API server and an operator do."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gapless_api.v1alpha1.kinds import KINDS

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).parents[3] / "charts" / "gapless" / "files" / "check_install.py"
ALL = tuple(kind.KIND for kind in KINDS)
SERVED = {"mirrors-here": ["mirrors"], "archives-here": ["archives", "restores"]}


@dataclass
class Answers:
    kinds: tuple[str, ...] | None = ALL
    healthy: list[bool] = field(default_factory=lambda: [True])
    """The first answers of the operator; the last one stays."""
    denied: tuple[str, ...] = ()
    """Verb, resource and namespace of a right that the account has not."""
    asked: set[tuple[str, ...]] = field(default_factory=set)
    """Rights that were looked at."""
    port: int = 0
    tokens: set[str] = field(default_factory=set)


@pytest.fixture
def answers() -> Iterator[Answers]:
    said = Answers()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"{}"
            if self.path == "/readyz":
                well = said.healthy.pop(0) if len(said.healthy) > 1 else said.healthy[0]
                self.send_response(200 if well else 500)
            elif self.path == "/apis/gapless.dev/v1alpha1" and said.kinds is not None:
                said.tokens.add(self.headers["Authorization"])
                self.send_response(200)
                body = json.dumps({"resources": [{"kind": kind} for kind in said.kinds]}).encode()
            else:
                self.send_response(404)
            self.answer(body)

        def do_POST(self) -> None:
            assert self.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            right = review["spec"]["resourceAttributes"]
            resource = "/".join(filter(None, (right["resource"], right["subresource"])))
            one = (right["verb"], right["group"], resource, right["namespace"])
            said.asked.add(one)
            self.send_response(201)
            self.answer(json.dumps({**review, "status": {"allowed": one != said.denied}}).encode())

        def answer(self, body: bytes) -> None:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        said.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield said
        server.shutdown()
        thread.join()


def check(answers: Answers, account: Path, deadline_seconds: float = 0) -> subprocess.CompletedProcess[str]:
    (account / "token").write_text("secret")
    environment = os.environ | {
        "GAPLESS_ACCOUNT": str(account),
        "GAPLESS_API": f"http://127.0.0.1:{answers.port}",
        "GAPLESS_HEALTH": f"http://127.0.0.1:{answers.port}/readyz",
        "GAPLESS_SERVED": json.dumps(SERVED),
        "GAPLESS_DEADLINE_SECONDS": str(deadline_seconds),
    }
    # As the pod runs it: the text as an argument, and no packages.
    command = [sys.executable, "-I", "-S", "-c", PROGRAM.read_text()]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_a_good_install_passes(answers: Answers, tmp_path: Path) -> None:
    ended = check(answers, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert answers.tokens == {"Bearer secret"}
    assert answers.asked == {
        *(("create", "batch", "jobs", namespace) for namespace in SERVED),
        *(("watch", "gapless.dev", kind, namespace) for namespace, kinds in SERVED.items() for kind in kinds),
        *(
            ("patch", "gapless.dev", f"{kind}/status", namespace)
            for namespace, kinds in SERVED.items()
            for kind in kinds
        ),
    }


def test_an_operator_that_needs_a_moment_gets_it(answers: Answers, tmp_path: Path) -> None:
    answers.healthy = [False, True]
    assert check(answers, tmp_path, deadline_seconds=30).returncode == 0


def test_a_right_that_the_operator_has_not_is_named(answers: Answers, tmp_path: Path) -> None:
    answers.denied = ("patch", "gapless.dev", "mirrors/status", "mirrors-here")
    ended = check(answers, tmp_path)
    assert ended.returncode == 1
    assert "may not patch mirrors/status of gapless.dev in the namespace mirrors-here; let the chart" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("kinds", "healthy", "sentence"),
    [
        (None, True, "does not serve gapless.dev/v1alpha1"),
        (ALL[:-2], True, "does not serve Restore, StorageLocation; install the CRDs"),
        (ALL, False, "The operator is not healthy"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    answers: Answers, tmp_path: Path, kinds: tuple[str, ...] | None, *, healthy: bool, sentence: str
) -> None:
    answers.kinds, answers.healthy = kinds, [healthy]
    ended = check(answers, tmp_path)
    assert ended.returncode == 1
    assert sentence in ended.stderr
    assert ended.stderr.count("\n") == 1
