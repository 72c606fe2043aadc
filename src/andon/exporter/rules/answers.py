"""Whether a receiver's answer means accepted, refused for good, or to be sent again."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from andon.errors import AndonError, Denied, Invalid, Unavailable
from andon.model.redaction import redact

LONGEST_WAIT_SECONDS = 3600.0
SHOWN_CHARACTERS = 200
_WRONG_SETTINGS = {
    401: "check its token or password",
    403: "check its token or password",
    404: "check the path of its url",
    405: "check the path of its url",
    407: "no proxy is used: check its url",
}
"""Refusals of the sender and not of what was sent: the settings can be corrected."""


class SendVerdict(StrEnum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    AGAIN = "again"


class SendResult(Struct, frozen=True):
    """Whether to send again, why, and how long the receiver asked to wait."""

    verdict: SendVerdict
    trouble: AndonError | None = None
    wait_seconds: float = 0.0


def judge(status: int, headers: Mapping[str, str], body: bytes, now: float) -> SendResult:
    """Returns what an answer means; `headers` have names in lower case, `now` is UTC."""
    text = redact(body.decode("utf-8", "replace").split())[:SHOWN_CHARACTERS]
    reason = f"answered {status}: {text}" if text else f"answered {status}"
    if 200 <= status < 300:
        return _accepted(body)
    if status in _WRONG_SETTINGS:
        return SendResult(SendVerdict.AGAIN, Denied(reason, hint=_WRONG_SETTINGS[status]))
    if 400 <= status < 500 and status not in (408, 425, 429):
        hint = "it does not take this: it is old, a repetition, or another format"
        return SendResult(SendVerdict.REFUSED, Invalid(reason, hint=hint))
    wait = _wait_seconds(headers.get("retry-after", ""), now)
    hint = "its address has moved: correct the url" if 300 <= status < 400 else "it is retried"
    return SendResult(SendVerdict.AGAIN, Unavailable(reason, hint=hint), wait)


def _accepted(body: bytes) -> SendResult:
    """Returns REFUSED if an OTLP receiver refused some points: they must not be sent again."""
    try:
        partial = msgspec.json.decode(body)["partialSuccess"]
        count, why = int(partial["rejectedDataPoints"]), str(partial.get("errorMessage", ""))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return SendResult(SendVerdict.ACCEPTED)
    if count <= 0:
        return SendResult(SendVerdict.ACCEPTED)
    reason = redact(why.split())[:SHOWN_CHARACTERS] or "without a reason"
    return SendResult(SendVerdict.REFUSED, Invalid(f"refused {count} points: {reason}"))


def _wait_seconds(text: str, now: float) -> float:
    """Reads Retry-After: seconds, or a date."""
    if text.isascii() and text.isdecimal():
        return min(float(text[:9]), LONGEST_WAIT_SECONDS)

    try:
        return min(max(0.0, parsedate_to_datetime(text).timestamp() - now), LONGEST_WAIT_SECONDS)
    except (ValueError, TypeError, OverflowError):
        return 0.0
