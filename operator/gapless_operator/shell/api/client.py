"""The operator's requests to the API server: every read and write; must not know why any is made.

Everything blocks, so it is called from threads. Every failure is one of `shell.api.errors`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import urllib3

from gapless_operator.shell.api.errors import ConflictError, NotFoundError, RefusedError, UnavailableError
from gapless_operator.shell.api.kinds import EVENT, Kind, kind_of
from gapless_operator.shell.api.transport import Transport

if TYPE_CHECKING:
    from gapless_operator.common.plan import Manifest, Ref

FIELD_MANAGER = "gapless-operator"
_LOG_SECONDS = 10.0
"""A kubelet that does not respond for this long is unreachable; the API server itself would wait for 30 seconds."""
_PAGE_SIZE = 25
"""A Resend may contain its bundle twice, in its spec and in kubectl's annotation: this many may be 12 MB."""
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


class Page(NamedTuple):
    """One page of a list."""

    present: frozenset[str]
    """Uids of all objects on it."""
    bodies: list[dict[str, Any]]
    """The complete objects; empty when none of them has changed."""
    version: str
    """Of the list."""


class ClusterApi(Transport):
    """Reads and writes objects as plain dictionaries."""

    # ------------------------------------------------------------------------------------------------ reading

    def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any] | None:
        """Read an object; ``None`` when there is none."""
        try:
            return self._json("GET", kind.path(namespace, name))
        except NotFoundError:
            return None

    def pages(
        self, kind: Kind, namespace: str | None, *, is_known: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> Iterator[Page]:
        """List the objects of a kind that match its selector, in one namespace or all, a page at a time.

        Most objects have not changed. So the metadata of each page is requested first, and its complete objects only
        if one of them has changed.

        Args:
            kind: to list.
            namespace: ``None`` for all.
            is_known: returns by its metadata whether an object is unchanged; without it, the complete objects are
                requested at once.

        Raises:
            ExpiredError: the list took too long; the pages so far are incomplete.
        """
        query = {"limit": str(_PAGE_SIZE)}
        if kind.selector:
            query["labelSelector"] = kind.selector
        while True:
            page, bodies = {}, list[dict[str, Any]]()
            if is_known is not None:
                page = self._json("GET", kind.path(namespace), query, headers={"Accept": _METADATA_ONLY})
                bodies = _items(page, kind)
            if is_known is None or not all(map(is_known, bodies)):
                # The same page: the continue token is valid for both forms of a list.
                page = self._json("GET", kind.path(namespace), query)
                bodies = full = _items(page, kind)
            else:
                full = []
            metadata = page.get("metadata") or {}
            present = frozenset(str(body["metadata"].get("uid", "")) for body in bodies)
            yield Page(present, full, str(metadata.get("resourceVersion", "")))
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    def serves(self, kind: Kind) -> bool:
        """Return whether the cluster has a kind, by discovery, which every account may read."""
        path = "/" + "/".join(("apis" if kind.group else "api", kind.api_version))
        try:
            discovery = self._json("GET", path)
        except NotFoundError:
            return False
        return any(resource.get("name") == kind.plural for resource in discovery.get("resources") or ())

    def version(self) -> str:
        """Return the version of the API server, such as v1.36.3."""
        return str(self._json("GET", "/version").get("gitVersion", ""))

    def log(self, namespace: str, pod: str, container: str, *, tail_lines: int, max_bytes: int) -> str | None:
        """Read the end of a container's log; ``None`` when it has none (yet, or any longer).

        Raises:
            UnavailableError: the kubelet cannot be reached.
        """
        query = {"container": container, "tailLines": str(tail_lines)}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        try:
            response = self._request("GET", path, query, read_seconds=_LOG_SECONDS)
            # Limited here, because limitBytes of the API server would cut off the end, which is needed.
            content = _read_end(response, max_bytes)
        except (NotFoundError, RefusedError):
            return None
        except urllib3.exceptions.HTTPError as error:
            raise UnavailableError(f"The log of pod {namespace}/{pod} cannot be read ({error}); retrying.") from None
        return content.decode("utf-8", "replace")

    # ------------------------------------------------------------------------------------------------ writing

    def create(self, manifest: Manifest) -> dict[str, Any]:
        """Create an object.

        Raises:
            ConflictError: one of that name exists, or a quota was changed at the same time; nothing was created.
        """
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        path = kind.path(manifest["metadata"]["namespace"])
        return self._json("POST", path, {"fieldManager": FIELD_MANAGER}, manifest)

    def apply(self, manifest: Manifest) -> dict[str, Any]:
        """Write an object by server-side apply; fields that are not in the manifest are not changed.

        Raises:
            ConflictError: the manifest names a uid or a version, and the object has another one.
        """
        metadata = manifest["metadata"]
        path = kind_of(manifest["apiVersion"], manifest["kind"]).path(metadata["namespace"], metadata["name"])
        return self._apply(path, manifest)

    def merge(
        self, kind: Kind, namespace: str | None, name: str, changes: Mapping[str, Any], *, manager: str
    ) -> dict[str, Any]:
        """Change fields of an object by a merge patch, in which ``None`` removes a field, on behalf of `manager`."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._json("PATCH", kind.path(namespace, name), {"fieldManager": manager}, dict(changes), headers)

    def create_if_absent(self, manifest: Manifest) -> dict[str, Any] | None:
        """Create an object; ``None`` when one of that name exists."""
        try:
            return self.create(manifest)
        except ConflictError:
            return None

    def replace(self, manifest: Manifest) -> dict[str, Any]:
        """Replace an object if it still has the version that the manifest names.

        Raises:
            ConflictError: it has another version.
        """
        metadata = manifest["metadata"]
        path = kind_of(manifest["apiVersion"], manifest["kind"]).path(metadata["namespace"], metadata["name"])
        return self._json("PUT", path, {"fieldManager": FIELD_MANAGER}, manifest)

    def review(self, kind: Kind, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Create a review of an account, which is not stored; return its status."""
        response = self._json(
            "POST", kind.path(None), body={"apiVersion": kind.api_version, "kind": kind.name, "spec": spec}
        )
        status = response.get("status")
        return status if isinstance(status, dict) else {}

    def apply_status(self, body: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the status of an object if that is still the version in `body`.

        Raises:
            ConflictError: the object was changed meanwhile, so the status may be outdated.
        """
        metadata = body["metadata"]
        kind = kind_of(body["apiVersion"], body["kind"])
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "status": status,
        }
        return self._apply(kind.path(metadata["namespace"], metadata["name"], "status"), manifest)

    def delete(self, namespace: str, ref: Ref, *, before_dependents: bool = False) -> bool:
        """Delete an object and its dependents; return whether it existed with the uid of `ref`.

        Args:
            namespace: of the object.
            ref: to the object.
            before_dependents: whether it is gone when this returns; else it stays until its dependents are gone.
        """
        policy = "Background" if before_dependents else "Foreground"
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
        if ref.uid:
            options["preconditions"] = {"uid": ref.uid}
        try:
            self._json("DELETE", kind_of(ref.api_version, ref.kind).path(namespace, ref.name), body=options)
        except (NotFoundError, ConflictError):
            return False
        return True

    def post_event(self, manifest: Manifest) -> None:
        """Create an event (events.k8s.io/v1); an existing one of the name counts as success."""
        body = {**manifest, "reportingController": FIELD_MANAGER, "reportingInstance": self._instance}
        with contextlib.suppress(ConflictError):
            self._json("POST", EVENT.path(manifest["metadata"]["namespace"]), body=body)

    # ------------------------------------------------------------------------------------------------ the wire

    def _apply(self, path: str, manifest: Manifest) -> dict[str, Any]:
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return self._json("PATCH", path, query, manifest, {"Content-Type": "application/apply-patch+yaml"})


def _items(page: Mapping[str, Any], kind: Kind) -> list[dict[str, Any]]:
    """Return the objects of a page, complete or only their metadata, with kind and version, which lists omit."""
    head = {"apiVersion": kind.api_version, "kind": kind.name}
    return [{**item, **head} for item in page.get("items") or ()]


def _read_end(response: urllib3.BaseHTTPResponse, max_bytes: int) -> bytes:
    """Read a response to its end and keep its last `max_bytes`."""
    pieces: list[bytes] = []
    size = 0
    for piece in response.stream(64 * 1024):
        pieces.append(piece)
        size += len(piece)
        while size - len(pieces[0]) >= max_bytes:
            size -= len(pieces.pop(0))
    return b"".join(pieces)[-max_bytes:]


def event_manifest(  # noqa: PLR0913 -- the parts of an event
    regarding: Mapping[str, Any], *, name: str, at: str, kind: str, reason: str, note: str, action: str
) -> dict[str, Any]:
    """Return an event about an object.

    Args:
        regarding: the object.
        name: of the event; posting a second one with it does nothing.
        at: when it happened, with microseconds.
        kind: Normal or Warning.
        reason: in one word.
        note: the message; truncated to the limit of Kubernetes.
        action: what the operator was doing, in one word.
    """
    metadata = regarding["metadata"]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "eventTime": at,
        "type": kind,
        "reason": reason[:128],
        "action": action[:128],
        "note": note if len(note.encode()) <= 1024 else note.encode()[:1021].decode("utf-8", "ignore") + "…",
        "regarding": {
            "apiVersion": regarding["apiVersion"],
            "kind": regarding["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
    }
