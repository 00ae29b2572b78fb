"""A real Kubernetes API server on loopback: etcd, kube-apiserver, and the Job and garbage collection controllers.

Must not know the product, and has no node: `kit.cluster.kubelet` simulates one. So CRDs, validation, server-side apply,
watches, Jobs and owner references are real, start in seconds and need no containers.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from kit.cluster import pki
from kit.cluster.build import KUBE
from kit.cluster.objects import Objects
from kit.cluster.places import SERVICE_NETWORK, ClusterError
from kit.machine.processes import end, free_ports, start_bound, wait_until

_CONTROLLERS = ("job-controller", "garbage-collector-controller", "namespace-controller", "serviceaccount-controller")
_START_SECONDS = 90.0


class ApiError(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:1000]}")
        self.status = status


class ApiServer(Objects):
    """A control plane without a node; a context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gapless-api-"))
        self._etcd_port, self._peer_port, self.port = free_ports(3)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.kubeconfig"

    def kubeconfig_through(self, port: int, folder: Path) -> Path:
        """Write a kubeconfig for another port of this machine, which leads here, to a folder; return its path."""
        other, text = folder / "kubeconfig", self.kubeconfig.read_text()
        assert f":{self.port}" in text
        other.write_text(text.replace(f":{self.port}", f":{port}"))
        return other

    @property
    def keys(self) -> Path:
        """The folder with all keys and certificates."""
        return self.folder / "pki"

    def __enter__(self) -> Self:
        KUBE.build()
        pki.write_all(self.keys, self.folder, self.port)
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pause(self) -> None:
        """Stop the API server, so that connections to it are refused."""
        end(self._processes.pop(1))

    def resume(self) -> None:
        """Start the API server again."""
        self._processes.insert(1, self._start("kube-apiserver", *self._api_server()))
        wait_until(self._answers, timeout_seconds=_START_SECONDS, what="the restart of the API server")
        end(self._processes.pop())  # the controllers would back off for half a minute
        self._processes.append(self._start_controllers())

    def backup(self) -> Path:
        """Copy the content of etcd, as a nightly backup would; return the folder of the copy."""
        copy = self.folder / "backup"
        self._end_all()
        shutil.copytree(self.folder / "etcd", copy)
        self._start_all()
        return copy

    def restore(self, copy: Path) -> None:
        """Return to the content of a backup, with its lower resource versions."""
        self._end_all()
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(copy, self.folder / "etcd")
        self._start_all()

    def _end_all(self) -> None:
        while self._processes:
            end(self._processes.pop())

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the API server: connections stay open without an answer, as behind a firewall that drops packets."""
        self._processes[1].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._processes[1].send_signal(signal.SIGCONT)
            wait_until(self._answers, timeout_seconds=_START_SECONDS, what="the restart of the API server")

    def _start_all(self) -> None:
        peer, client = f"http://127.0.0.1:{self._peer_port}", f"http://127.0.0.1:{self._etcd_port}"
        etcd = self._start(
            "etcd",
            "--name=gapless",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=gapless={peer}",
        )
        self._processes += [etcd, self._start("kube-apiserver", *self._api_server())]
        wait_until(self._answers, timeout_seconds=_START_SECONDS, what="the start of the API server")
        self._processes.append(self._start_controllers())

    def _start_controllers(self) -> subprocess.Popen[bytes]:
        return self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--leader-elect=false",
            f"--controllers={','.join(_CONTROLLERS)}",
        )

    def _api_server(self) -> list[str]:
        keys = self.keys
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--advertise-address=127.0.0.1",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            # Its controller does not run here, and pods would wait for accounts.
            "--disable-admission-plugins=ServiceAccount",
            f"--client-ca-file={keys}/ca.crt",
            f"--tls-cert-file={keys}/apiserver.crt",
            f"--tls-private-key-file={keys}/apiserver.key",
            f"--kubelet-client-certificate={keys}/admin.crt",
            f"--kubelet-client-key={keys}/admin.key",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={keys}/sa.pub",
            f"--service-account-signing-key-file={keys}/sa.key",
            "--profiling=false",
        ]

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{program}.log").open("ab") as log:
            return start_bound([KUBE.file.with_name(program), *arguments], stdout=log, stderr=log)

    def _answers(self) -> bool:
        for process in self._processes:
            if process.poll() is not None:
                logs = "\n".join(file.read_text(errors="replace")[-800:] for file in self.folder.glob("*.log"))
                raise ClusterError(f"The tests' API server did not start. Its logs end with:\n{logs}")
        try:
            return bool(self.request("GET", "/readyz", plain=True) == "ok")
        except (ApiError, OSError, http.client.HTTPException):
            return False

    # -------------------------------------------------------------------------------------------------- requests

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_seconds: float = 120.0) -> str:
        """Run kubectl as the administrator and return its output."""
        completed = subprocess.run(
            [KUBE.file.with_name("kubectl"), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)},
        )
        if completed.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)[:200]} failed: {completed.stderr.strip()}")
        return completed.stdout

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content: str = "application/json",
        plain: bool = False,
        user: str = "",
    ) -> Any:
        """Send a request without kubectl, which takes a tenth of a second to start.

        Args:
            method: such as PATCH.
            path: including the query.
            body: to send, if any.
            content: media type of `body`.
            plain: return the response as text.
            user: to impersonate; the administrator if empty.

        Raises:
            ApiError: the API server answered with an error.
        """
        trust = ssl.create_default_context(cafile=str(self.keys / "ca.crt"))
        trust.load_cert_chain(self.keys / "admin.crt", self.keys / "admin.key")
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=trust, timeout=30)
        try:
            text = None if body is None else json.dumps(body)
            headers = {"Content-Type": content, "Accept": "application/json, */*"}
            connection.request(method, path, text, headers | ({"Impersonate-User": user} if user else {}))
            response = connection.getresponse()
            content_text = response.read().decode()
        finally:
            connection.close()
        if response.status >= 300:
            raise ApiError(response.status, content_text)
        return content_text if plain else json.loads(content_text)

    def fetch(self, path: str) -> dict[str, Any] | None:
        """Return the answer to a GET, or None if there is nothing of that name. Raises ApiError."""
        try:
            answer: dict[str, Any] = self.request("GET", path)
        except ApiError as error:
            if error.status == http.client.NOT_FOUND:
                return None
            raise
        return answer

    def eventually(self, check: Any, *, timeout_seconds: float = 30.0, what: str) -> Any:
        """Call `check` repeatedly until it returns a true value; return that."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            result = check()
            if result:
                return result
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not happen within {timeout_seconds:.0f} s")
            time.sleep(0.1)
