"""Owns how the operator speaks to the API server: every read and write it makes; must not know why any is made.

Everything blocks, so it is called from threads. Every failure is one of `shell.api.errors`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import urllib3

from gapless_operator.shell.api.errors import ConflictError, NotFoundError, RefusedError, UnavailableError
from gapless_operator.shell.api.kinds import EVENT, Kind, kind_of
from gapless_operator.shell.api.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gapless_operator.common.plan import Manifest, Ref

FIELD_MANAGER = "gapless-operator"
_LOG_SECONDS = 10.0
"""A kubelet that says nothing for this long is not reachable; the API server itself would wait for half a minute."""
_OBJECTS_OF_A_PAGE = 25
"""A Resend may hold its bundle twice, in its spec and in kubectl's annotation: this many may be 12 MB."""
_HEADS = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


class Page(NamedTuple):
    """A part of a list."""

    present: frozenset[str]
    """Uids of all objects on it."""
    bodies: list[dict[str, Any]]
    """The complete objects; none when all of them are known."""
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
        """List all objects of a kind that matter, of one namespace or of all, a page at a time.

        Of most objects nothing is new. So the metadata of each page is requested first, and its complete objects only
        if one of them is not known.

        Args:
            kind: to list.
            namespace: ``None`` for all.
            is_known: says of an object's metadata that nothing is new; without it the objects are requested at once.

        Raises:
            ExpiredError: the list took too long; what was yielded is not all of it.
        """
        query = {"limit": str(_OBJECTS_OF_A_PAGE)}
        if kind.selector:
            query["labelSelector"] = kind.selector
        while True:
            page, bodies = {}, list[dict[str, Any]]()
            if is_known is not None:
                page = self._json("GET", kind.path(namespace), query, headers={"Accept": _HEADS})
                bodies = _items(page, kind)
            if is_known is None or not all(map(is_known, bodies)):
                # The same page: a list continues from a key at one version, whatever form of objects is requested.
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
        """Whether the cluster knows a kind, which every account may ask."""
        path = "/" + "/".join(("apis" if kind.group else "api", kind.api_version))
        try:
            found = self._json("GET", path)
        except NotFoundError:
            return False
        return any(resource.get("name") == kind.plural for resource in found.get("resources") or ())

    def log(self, namespace: str, pod: str, container: str, *, tail_lines: int, most_bytes: int) -> str | None:
        """Read the end of a container's log; ``None`` when it has none (yet, or any more).

        Raises:
            UnavailableError: the kubelet cannot be reached.
        """
        query = {"container": container, "tailLines": str(tail_lines)}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        try:
            response = self._request("GET", path, query, read_seconds=_LOG_SECONDS)
            # A bound of our own: the server's limitBytes would cut off the end, which is what matters.
            content = _read_end(response, most_bytes)
        except (NotFoundError, RefusedError):
            return None
        except urllib3.exceptions.HTTPError as error:
            raise UnavailableError(
                f"The log of pod {namespace}/{pod} cannot be read ({error}); it is retried."
            ) from None
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
        """Write an object by server-side apply: what the manifest says is so afterwards, the rest stays.

        Raises:
            ConflictError: the manifest names a uid or a version, and the object is another one by now.
        """
        metadata = manifest["metadata"]
        path = kind_of(manifest["apiVersion"], manifest["kind"]).path(metadata["namespace"], metadata["name"])
        return self._apply(path, manifest)

    def create_if_absent(self, manifest: Manifest) -> dict[str, Any] | None:
        """Create an object; ``None`` when one of that name exists."""
        try:
            return self.create(manifest)
        except ConflictError:
            return None

    def replace(self, manifest: Manifest) -> dict[str, Any]:
        """Replace an object, if it still is the version that the manifest names.

        Raises:
            ConflictError: it is another one.
        """
        metadata = manifest["metadata"]
        path = kind_of(manifest["apiVersion"], manifest["kind"]).path(metadata["namespace"], metadata["name"])
        return self._json("PUT", path, {"fieldManager": FIELD_MANAGER}, manifest)

    def review(self, kind: Kind, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the API server about an account; return the status of its answer. Nothing is stored."""
        response = self._json(
            "POST", kind.path(None), body={"apiVersion": kind.api_version, "kind": kind.name, "spec": spec}
        )
        status = response.get("status")
        return status if isinstance(status, dict) else {}

    def apply_status(self, body: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        """Make `status` the status of the object `body`, if that is still what it was.

        Raises:
            ConflictError: it was changed meanwhile, so the status may be about something else.
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

    def delete(self, namespace: str, ref: Ref) -> bool:
        """Delete an object and what it owns; return whether it was there and the one that was meant."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        if ref.uid:
            options["preconditions"] = {"uid": ref.uid}
        try:
            self._json("DELETE", kind_of(ref.api_version, ref.kind).path(namespace, ref.name), body=options)
        except (NotFoundError, ConflictError):
            return False
        return True

    def post_event(self, manifest: Manifest) -> None:
        """Create an event (events.k8s.io/v1); that one of the name exists is success."""
        body = {**manifest, "reportingController": FIELD_MANAGER, "reportingInstance": self._instance}
        with contextlib.suppress(ConflictError):
            self._json("POST", EVENT.path(manifest["metadata"]["namespace"]), body=body)

    # ------------------------------------------------------------------------------------------------ the wire

    def _apply(self, path: str, manifest: Manifest) -> dict[str, Any]:
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return self._json("PATCH", path, query, manifest, {"Content-Type": "application/apply-patch+yaml"})


def _items(page: Mapping[str, Any], kind: Kind) -> list[dict[str, Any]]:
    """The objects of a page, complete or only their metadata; items of a list come without kind and version."""
    head = {"apiVersion": kind.api_version, "kind": kind.name}
    return [{**item, **head} for item in page.get("items") or ()]


def _read_end(response: urllib3.BaseHTTPResponse, most_bytes: int) -> bytes:
    """Read all of a response and keep its last `most_bytes`."""
    pieces: list[bytes] = []
    held = 0
    for piece in response.stream(64 * 1024):
        pieces.append(piece)
        held += len(piece)
        while held - len(pieces[0]) >= most_bytes:
            held -= len(pieces.pop(0))
    return b"".join(pieces)[-most_bytes:]


def event_manifest(  # noqa: PLR0913 -- the parts of an event
    regarding: Mapping[str, Any], *, name: str, at: str, kind: str, reason: str, note: str, action: str
) -> dict[str, Any]:
    """An event about the object `regarding`.

    Args:
        regarding: the complete object.
        name: of the event; the same name is the same event.
        at: when it happened, with microseconds.
        kind: Normal or Warning.
        reason: in one word.
        note: in a sentence; cut where Kubernetes would refuse it.
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
