"""The one shape of every error that leaves the server."""

from andon.errors import AndonError
from andon.model import wire

KINDS = {
    400: "invalid", 401: "denied", 403: "denied", 404: "gone", 405: "invalid", 409: "conflict",
    410: "gone", 411: "invalid", 413: "invalid", 415: "invalid", 422: "invalid", 429: "denied",
    503: "unavailable",
}  # fmt: skip


def problem(status: int, reason: str, hint: str = "", kind: str | None = None) -> bytes:
    """`{"error": {"kind", "reason", "hint"}}`."""
    named = kind or KINDS.get(status, "failed" if status >= 500 else "invalid")
    return wire.dumps({"error": {"kind": named, "reason": reason, "hint": hint}}).encode()


def problem_of(error: AndonError) -> bytes:
    return problem(error.http_status, error.reason, error.hint, type(error).__name__.lower())
