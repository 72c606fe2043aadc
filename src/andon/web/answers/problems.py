"""The one format of every error that the server returns."""

from collections.abc import Sequence
from http import HTTPStatus

from andon.errors import AndonError
from andon.model import wire
from andon.web.transport.headers import Message, Send

KINDS = {
    400: "invalid", 401: "denied", 403: "denied", 404: "gone", 405: "invalid", 409: "conflict",
    410: "gone", 411: "invalid", 413: "invalid", 415: "invalid", 422: "invalid", 429: "denied",
    503: "unavailable",
}  # fmt: skip

UNEXPECTED = ("internal server error", "see the server's log")
_LONGEST = 400
_JSON = b"application/json"


def problem(status: int, reason: str, hint: str = "", details: Sequence[str] = ()) -> bytes:
    """`{"error": {"kind", "reason", "hint"}}`, with `details` if there are any."""
    kind = KINDS.get(status, "failed" if status >= 500 else "invalid")
    error: wire.Json = {"kind": kind, "reason": reason, "hint": hint}
    if details:
        error["details"] = list(details)
    return wire.dumps({"error": error}).encode("utf-8", "replace")


def problem_of(error: AndonError) -> bytes:
    return problem(error.http_status, error.reason, error.hint, error.mistakes)


class ProblemFormatter:
    """Forwards what an application sends; converts a library's plain-text error to our format."""

    def __init__(self, send: Send) -> None:
        self.begun = False
        self._send = send
        self._held: Message | None = None
        self._text = b""

    async def __call__(self, message: Message) -> None:
        self.begun = True
        if message["type"] == "http.response.start" and _is_plain_error(message):
            self._held = message
        elif self._held is None:
            await self._send(message)
        else:
            self._text += message.get("body", b"")[:_LONGEST]
            if not message.get("more_body", False):
                await self._send_problem(self._held)

    async def _send_problem(self, start: Message) -> None:
        status = start["status"]
        text = self._text[:_LONGEST].decode("utf-8", "replace").strip().strip('"')
        body = problem(status, text or HTTPStatus(status).phrase, "/openapi.json lists every route")
        replaced = {b"content-type": _JSON, b"content-length": str(len(body)).encode()}
        headers = [(k, v) for k, v in start.get("headers", ()) if k.lower() not in replaced]
        await self._send({**start, "headers": [*headers, *replaced.items()]})
        await self._send({"type": "http.response.body", "body": body})


def _is_plain_error(start: Message) -> bool:
    kinds = [value for name, value in start.get("headers", ()) if name.lower() == b"content-type"]
    return start["status"] >= 400 and not any(kind.startswith(_JSON) for kind in kinds)
