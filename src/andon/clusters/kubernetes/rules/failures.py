"""What Kubernetes' API and `kubectl` say when they refuse, as one of andon's errors."""

import json
import re
from typing import Final

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.units import plain, sh

LONGEST: Final = 300
_FROM_SERVER: Final = re.compile(r"Error from server \((\w+)\): (.*)", re.S)
_RIGHT: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?:.*? in the namespace "(?P<namespace>[^"]*)")?',
    re.S,
)
_AWAY: Final = (
    "connection to the server", "connection refused", "no such host", "i/o timeout",
    "deadline exceeded", "tls handshake timeout", "network is unreachable", "eof",
    "client.timeout exceeded", "connection reset", "no route to host", "unable to connect",
    "service unavailable",
)  # fmt: skip
_LOGIN: Final = (
    "you must be logged in", "unauthorized", "getting credentials", "exec plugin",
    "token has expired", "provide credentials", "refresh token",
)  # fmt: skip
_CONTEXT: Final = ("context", "no configuration has been provided", "kubeconfig", "invalid config")


class ListExpired(Gone):
    """The server no longer has what a list or a watch began with: begin again."""


_KINDS: Final[dict[str, type[AndonError]]] = {
    "NotFound": Gone, "Gone": ListExpired, "Expired": ListExpired, "Forbidden": Denied,
    "Unauthorized": Denied, "AlreadyExists": Conflict, "Conflict": Conflict, "Invalid": Invalid,
    "BadRequest": Invalid, "MethodNotAllowed": Invalid, "UnsupportedMediaType": Invalid,
    "NotAcceptable": Invalid, "RequestEntityTooLarge": Invalid,
}  # fmt: skip
_CODES: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
    410: "Expired", 422: "Invalid", 429: "TooManyRequests",
}  # fmt: skip


def failure(reason: str, message: str) -> AndonError:
    """Returns the error for the reason of a Status, with its message."""
    said = plain(" ".join(message.split()), LONGEST)
    if reason == "Forbidden" and (right := _RIGHT.search(message)) is not None:
        return _forbidden(right, said)
    if reason == "Unauthorized":
        return Denied(f"the login is not valid: {said}", hint="log in again, as for kubectl")
    if reason == "NotFound" and said.startswith("namespaces "):
        return Invalid(f"there is no such namespace: {said}", hint="set namespace")
    kind = _KINDS.get(reason)
    if kind is None:
        words = "it has too many requests" if reason == "TooManyRequests" else "it failed"
        return Unavailable(f"Kubernetes does not answer: {words} ({said or reason})")
    words = "Kubernetes does not know it" if issubclass(kind, Gone) else "Kubernetes refuses it"
    return kind(f"{words}: {said or reason}")


def of_status(code: int, body: bytes) -> AndonError:
    """Returns the error for an answer of the API that is no success."""
    reason, message = "", ""
    try:
        status = json.loads(body)
        reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    except (ValueError, AttributeError, RecursionError):
        message = body[:LONGEST].decode("utf-8", "replace")
    return failure(reason or _CODES.get(code, f"HTTP {code}"), message)


def of_kubectl(said: str) -> AndonError:
    """Returns the error for what `kubectl` says."""
    found = _FROM_SERVER.search(said)
    if found is not None:
        return failure(found[1], found[2])
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    words = plain(lines[-1].removeprefix("error: ") if lines else "it gave no reason", LONGEST)
    small = said.lower()
    if " is invalid" in small and small.lstrip().startswith("the "):
        return failure("Invalid", said)
    if any(one in small for one in _LOGIN):
        return Denied(f"the login is not valid: {words}", hint="log in again, as for kubectl")
    if any(one in small for one in _AWAY):
        return Unavailable(
            f"Kubernetes does not answer: {words}", hint="kubectl config current-context"
        )
    if any(one in small for one in _CONTEXT):
        return Invalid(f"kubectl has no such context: {words}", hint="kubectl config get-contexts")
    if "not found" in small:
        return Gone(f"Kubernetes does not know it: {words}")
    return Unavailable(f"kubectl failed: {words}")


def _forbidden(right: re.Match[str], said: str) -> AndonError:
    """Returns which right is missing, and the Role to ask for."""
    verb, resource, group = right["verb"], right["resource"], right["group"]
    full = f"{resource}.{group}" if group else resource
    place = right["namespace"]
    kind, scope = ("role", f" -n {sh(place)}") if place else ("clusterrole", "")
    where = f" in {place}" if place else ""
    return Denied(
        f"{right['user']} may not {verb} {full}{where}",
        hint=f"ask for: kubectl create {kind} andon --verb={verb} --resource={sh(full)}{scope}",
    )
