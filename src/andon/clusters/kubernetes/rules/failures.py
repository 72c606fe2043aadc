"""Translates refusals of Kubernetes' API and of `kubectl` into andon's errors."""

import json
import re
from typing import Final

from andon.clusters.rules.refusals import Meaning, Refusals, refused
from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.units import plain, sh

LONGEST: Final = 300
_ACCOUNT: Final = "system:serviceaccount:"
_FROM_SERVER: Final = re.compile(r"Error from server \((\w+)\): (.*)", re.S)
_RIGHT: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?:.*? in the namespace "(?P<namespace>[^"]*)")?',
    re.S,
)


class ListExpired(Gone):
    """The server no longer has the version of a list or a watch: it must be listed again."""


_AGAIN: Final = "log in again, as for kubectl"
_REASONS: Final[Refusals] = {  # of a Status
    ("notfound",): Meaning(Gone, "Kubernetes does not know it"),
    ("gone", "expired"): Meaning(ListExpired, "Kubernetes does not know it"),
    ("forbidden",): Meaning(Denied, "Kubernetes refuses it"),
    ("unauthorized",): Meaning(Denied, "the login is not valid", _AGAIN),
    ("alreadyexists", "conflict"): Meaning(Conflict, "Kubernetes refuses it"),
    (
        "invalid", "badrequest", "methodnotallowed", "unsupportedmediatype", "notacceptable",
        "requestentitytoolarge",
    ): Meaning(Invalid, "Kubernetes refuses it"),
    ("toomanyrequests",): Meaning(
        Unavailable, "Kubernetes does not answer: it has too many requests"
    ),
}  # fmt: skip
_KUBECTL_ERRORS: Final[Refusals] = {  # by kubectl itself
    (
        "you must be logged in", "unauthorized", "getting credentials", "exec plugin",
        "token has expired", "provide credentials", "refresh token",
    ): Meaning(Denied, "the login is not valid", _AGAIN),
    (
        "connection to the server", "connection refused", "no such host", "i/o timeout",
        "deadline exceeded", "tls handshake timeout", "network is unreachable", "eof",
        "client.timeout exceeded", "connection reset", "no route to host", "unable to connect",
        "service unavailable",
    ): Meaning(Unavailable, "Kubernetes does not answer", "kubectl config current-context"),
    ("context", "no configuration has been provided", "kubeconfig", "invalid config"): Meaning(
        Invalid, "kubectl has no such context", "kubectl config get-contexts"
    ),
    ("not found",): Meaning(Gone, "Kubernetes does not know it"),
}  # fmt: skip
_CODES: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
    410: "Expired", 422: "Invalid", 429: "TooManyRequests",
}  # fmt: skip


def failure(reason: str, message: str) -> AndonError:
    """Returns the error for the reason of a Status, with its message."""
    text = plain(" ".join(message.split()), LONGEST)
    if reason == "Forbidden" and (right := _RIGHT.search(message)) is not None:
        return _forbidden(right, text)
    if reason == "NotFound" and text.startswith("namespaces "):
        return Invalid(f"there is no such namespace: {text}", hint="set namespace")
    otherwise = Meaning(Unavailable, "Kubernetes does not answer: it failed")
    return refused(reason, text or reason, _REASONS, otherwise)


def of_status(code: int, body: bytes) -> AndonError:
    """Returns the error for an answer of the API that reports a failure."""
    reason, message = "", ""
    try:
        status = json.loads(body)
        reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    except (ValueError, AttributeError, RecursionError):
        message = body[:LONGEST].decode("utf-8", "replace")
    return failure(reason or _CODES.get(code, f"HTTP {code}"), message)


def of_kubectl(stderr: str) -> AndonError:
    """Returns the error for the error output of `kubectl`."""
    found = _FROM_SERVER.search(stderr)
    if found is not None:
        return failure(found[1], found[2])
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    text = plain(lines[-1].removeprefix("error: ") if lines else "it gave no reason", LONGEST)
    if " is invalid" in stderr and stderr.lstrip().startswith("The "):
        return failure("Invalid", stderr)
    return refused(stderr, text, _KUBECTL_ERRORS, Meaning(Unavailable, "kubectl failed"))


def _forbidden(right: re.Match[str], text: str) -> AndonError:
    """Returns which right is missing, and the lines that grant it."""
    verb, resource, group = right["verb"], right["resource"], right["group"]
    full = f"{resource}.{group}" if group else resource
    place, user = right["namespace"], right["user"]
    kind, scope = ("role", f" -n {sh(place)}") if place else ("clusterrole", "")
    name, account = sh(f"andon-{verb}-{resource}"), user.removeprefix(_ACCOUNT)
    who = f"--user={sh(user)}" if account == user else f"--serviceaccount={sh(account)}"
    where = f" in {place}" if place else ""
    return Denied(
        f"{user} may not {verb} {full}{where}",
        hint=f"ask for: kubectl create {kind} {name} --verb={verb} --resource={sh(full)}{scope} && "
        f"kubectl create {kind}binding {name} --{kind}={name} {who}{scope}",
    )
