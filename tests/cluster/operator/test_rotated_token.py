"""The operator in a pod logs in with a token that the kubelet replaces: it goes on when the earlier one has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kit.cluster.api_server import ApiServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


@dataclass(frozen=True)
class Account:
    """A service account with all rights, and the folder that the kubelet would mount."""

    api: ApiServer
    namespace: str
    folder: Path

    def create(self) -> None:
        """Create the account, with a token in the folder."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self.api.request("POST", path, {"metadata": {"name": "operator"}})
        asked = {"spec": {"expirationSeconds": 600}}
        token = self.api.request("POST", f"{path}/operator/token", asked)["status"]["token"]
        self.folder.mkdir(exist_ok=True)
        (self.folder / "ca.crt").write_bytes((self.api.keys / "ca.crt").read_bytes())
        (self.folder / "namespace").write_text(self.namespace)
        replaced = self.folder / "token.new"
        replaced.write_text(token)
        replaced.rename(self.folder / "token")

    @property
    def token(self) -> str:
        """The token in the folder."""
        return (self.folder / "token").read_text()

    def delete(self) -> None:
        """Delete the account: the API server refuses its tokens from some seconds later on."""
        self.api.request("DELETE", f"/api/v1/namespaces/{self.namespace}/serviceaccounts/operator")

    def is_refused(self, token: str) -> bool:
        """Whether the API server refuses a token."""
        review = {"spec": {"token": token}}
        answer = self.api.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        return not answer["status"].get("authenticated", False)


@pytest.fixture
def account(place: Any, tmp_path: Path) -> Account:
    made = Account(place.api, place.name, tmp_path / "serviceaccount")
    binding = {
        "metadata": {"name": f"operator-of-{place.name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": place.name}],
    }
    place.api.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    made.create()
    return made


def test_a_token_that_has_ended_is_replaced_by_the_one_in_its_file(
    place: Any, account: Account, operator: Callable[..., Any]
) -> None:
    running = operator(account=account.folder, relist_seconds=300)
    place.gap_scan("before")
    place.until("GapScan", "before", "Ready", "True", "GapsFound")
    first = account.token
    account.delete()
    place.api.eventually(lambda: account.is_refused(first), timeout_seconds=30, what="the end of the token")
    place.api.pause()  # which ends the watches: they need a token only when they begin
    place.api.resume()
    assert running.wait(10) is None, "a token that has ended does not end the operator"
    account.create()
    place.gap_scan("after")
    place.until("GapScan", "after", "Ready", "True", "GapsFound", seconds=90)
    place.gap_scan("last")  # which only the watches can show so soon
    place.until("GapScan", "last", "Ready", "True", "GapsFound")
    assert running.healthy()
