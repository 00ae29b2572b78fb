"""Owns how the operator speaks to the API server: every read and write it makes; must not know why any is made.

Connections, certificates and tokens are the official client's. Everything blocks, so it is called from threads. Every
failure is one of the errors below, which say whether trying again can help.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from gapless_api.base.errors import ConfigurationError
from gapless_operator.shell.api.faults import FaultPoint
from gapless_operator.shell.api.kinds import EVENT, Kind, kind_of
from gapless_operator.shell.api.server_clock import ServerClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gapless_operator.common.plan import Manifest, Ref

FIELD_MANAGER = "gapless-operator"
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 30.0
_LOG_SECONDS = 10.0
"""A kubelet that says nothing for this long is not reachable; the API server itself would wait for half a minute."""
_OBJECTS_OF_A_PAGE = 25
"""A Resend may hold its bundle twice, in its spec and in kubectl's annotation: this many may be 12 MB."""
_HEADS = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
_LIST_EXPIRED = 410


class ApiError(Exception):
    """The API server did not do what was asked; the service tries again, so that no exit code stands for it."""


class UnavailableError(ApiError):
    """It cannot be reached, is overloaded or failed; the same again may go well."""


class ConflictError(ApiError):
    """The object is another one than we looked at; look again."""


class RefusedError(ApiError):
    """It will not do this: no right, a quota, an admission policy, or an object that is not valid."""


class NotFoundError(ApiError):
    """There is no such object, namespace or kind."""


class ExpiredError(ApiError):
    """The rest of a list cannot be had any more, because it took too long; list it anew."""


class Page(NamedTuple):
    """A part of a list."""

    present: frozenset[str]
    """Uids of all objects on it."""
    bodies: list[dict[str, Any]]
    """The whole objects; none when all of them are known."""
    version: str
    """Of the list."""


def connected() -> ApiClient:
    """A client for the cluster that this pod runs in, or for the one that KUBECONFIG names.

    Raises:
        ConfigurationError: there is neither.
    """
    settings = Configuration()
    try:
        if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise ConfigurationError(
            f"The cluster is unknown ({error}); run the operator in a pod with a service account, or set KUBECONFIG."
        ) from None
    # Trying again is the work queue's business; only a connection that cannot be opened is tried at once again.
    settings.retries = urllib3.Retry(
        total=2, connect=2, read=False, redirect=0, status=0, other=0, respect_retry_after_header=False
    )
    settings.connection_pool_maxsize = 16
    return ApiClient(settings)


class ClusterApi:
    """Reads and writes objects as plain dictionaries."""

    def __init__(
        self,
        client: ApiClient,
        fault: FaultPoint | None = None,
        *,
        instance: str = "gapless-operator",
        clock: ServerClock | None = None,
        asked: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare it; nothing is sent.

        Args:
            client: with connections and credentials.
            fault: counts the writes of plans.
            instance: name of this process in events.
            clock: is told what time it is for the API server.
            asked: called with the method of every request.
        """
        self._client = client
        self._fault = fault or FaultPoint()
        self._instance = instance
        self._clock = clock or ServerClock()
        self._asked = asked

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

        Of most objects nothing is new. So each page is asked for its metadata first, and for the whole objects only if
        one of them is not known.

        Args:
            kind: to list.
            namespace: ``None`` for all.
            is_known: says of an object's metadata that nothing is new; without it whole objects are asked for at once.

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
                # The same page: a list goes on from a key at one version, whatever form of objects is asked for.
                page = self._json("GET", kind.path(namespace), query)
                bodies = whole = _items(page, kind)
            else:
                whole = []
            metadata = page.get("metadata") or {}
            present = frozenset(str(body["metadata"].get("uid", "")) for body in bodies)
            yield Page(present, whole, str(metadata.get("resourceVersion", "")))
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
                f"The log of pod {namespace}/{pod} cannot be read ({error}); it is tried again."
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
        created = self._json("POST", path, {"fieldManager": FIELD_MANAGER}, manifest)
        self._fault.wrote()
        return created

    def apply(self, manifest: Manifest) -> dict[str, Any]:
        """Write an object by server-side apply: what the manifest says is so afterwards, the rest stays.

        Raises:
            ConflictError: the manifest names a uid or a version, and the object is another one by now.
        """
        metadata = manifest["metadata"]
        path = kind_of(manifest["apiVersion"], manifest["kind"]).path(metadata["namespace"], metadata["name"])
        applied = self._apply(path, manifest)
        self._fault.wrote()
        return applied

    def apply_unseen(self, manifest: Manifest) -> dict[str, Any]:
        """Do the same for an object that is not part of any plan, so that tests need not count it."""
        metadata = manifest["metadata"]
        path = kind_of(manifest["apiVersion"], manifest["kind"]).path(metadata["namespace"], metadata["name"])
        return self._apply(path, manifest)

    def create_unseen(self, manifest: Manifest) -> dict[str, Any] | None:
        """Create an object that is not part of any plan; ``None`` when one of that name exists."""
        path = kind_of(manifest["apiVersion"], manifest["kind"]).path(manifest["metadata"]["namespace"])
        try:
            return self._json("POST", path, {"fieldManager": FIELD_MANAGER}, manifest)
        except ConflictError:
            return None

    def replace_unseen(self, manifest: Manifest) -> dict[str, Any]:
        """Replace an object that is not part of any plan, if it still is the version that the manifest names.

        Raises:
            ConflictError: it is another one.
        """
        metadata = manifest["metadata"]
        path = kind_of(manifest["apiVersion"], manifest["kind"]).path(metadata["namespace"], metadata["name"])
        return self._json("PUT", path, {"fieldManager": FIELD_MANAGER}, manifest)

    def review(self, kind: Kind, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the API server about an account; return the status of its answer. Nothing is stored."""
        answer = self._json(
            "POST", kind.path(None), body={"apiVersion": kind.api_version, "kind": kind.name, "spec": spec}
        )
        status = answer.get("status")
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
        written = self._apply(kind.path(metadata["namespace"], metadata["name"], "status"), manifest)
        self._fault.wrote()
        return written

    def delete(self, namespace: str, ref: Ref) -> bool:
        """Delete an object and what it owns; return whether it was there and the one that was meant."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        if ref.uid:
            options["preconditions"] = {"uid": ref.uid}
        try:
            self._json("DELETE", kind_of(ref.api_version, ref.kind).path(namespace, ref.name), body=options)
        except (NotFoundError, ConflictError):
            return False
        self._fault.wrote()
        return True

    def post_event(self, manifest: Manifest) -> None:
        """Create an event (events.k8s.io/v1); that one of the name exists is success."""
        body = {**manifest, "reportingController": FIELD_MANAGER, "reportingInstance": self._instance}
        try:
            self._json("POST", EVENT.path(manifest["metadata"]["namespace"]), body=body)
        except ConflictError:
            return
        self._fault.wrote()

    # ------------------------------------------------------------------------------------------------ the wire

    def _apply(self, path: str, manifest: Manifest) -> dict[str, Any]:
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return self._json("PATCH", path, query, manifest, {"Content-Type": "application/apply-patch+yaml"})

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        response = self._request(method, path, query, body, headers)
        found = json.loads(response.data)
        return found if isinstance(found, dict) else {}

    def _request(  # noqa: PLR0913 -- the parts of a request
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Manifest | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        read_seconds: float = _READ_SECONDS,
    ) -> urllib3.BaseHTTPResponse:
        self._asked(method)
        usual = {"Accept": "application/json, */*"} | ({"Content-Type": "application/json"} if body is not None else {})
        address = f"{path}?{urlencode(query)}" if query else path
        request = self._client.param_serialize(
            method, address, header_params=usual | dict(headers or {}), auth_settings=["BearerToken"]
        )
        timeout = (_CONNECT_SECONDS, read_seconds)
        try:
            response = self._client.call_api(*request[:3], body, _request_timeout=timeout).response
            self._clock.heard(response.headers.get("Date"))
            if response.status < 300:
                return response  # type: ignore[no-any-return]
            content = response.data
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            raise UnavailableError(f"The API server cannot be reached ({_cause(error)}); it is tried again.") from None
        raise _error(method, path, response.status, content)


def _cause(error: Exception) -> str:
    """The heart of what the HTTP library says."""
    reason = getattr(error, "reason", None) or error
    return str(reason).rpartition(": ")[2][:200] or type(reason).__name__


def _error(method: str, path: str, status: int, content: bytes) -> ApiError:
    try:
        message = json.loads(content).get("message", "")
    except (ValueError, AttributeError):
        message = content[:200].decode("utf-8", "replace")
    sentence = f"The API server answers {method} {path} with {status}: {message.rstrip('.')}."
    if status == 404:
        return NotFoundError(sentence)
    if status == 409:
        return ConflictError(sentence)
    if status == _LIST_EXPIRED:
        return ExpiredError(sentence)
    if status in {408, 429} or status >= 500:
        return UnavailableError(sentence)
    return RefusedError(sentence)


def _items(page: Mapping[str, Any], kind: Kind) -> list[dict[str, Any]]:
    """The objects of a page, whole or only their metadata; items of a list come without kind and version."""
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
        regarding: the whole object.
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
