"""Five kinds of error; each knows its exit code and HTTP status and carries what to do."""

from typing import ClassVar


class AndonError(Exception):
    """Something andon can name. `hint` is what the person can do about it.

    `mistakes` lists every single one where there are several.
    """

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, reason: str, hint: str = "", mistakes: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.mistakes = mistakes


class Unavailable(AndonError):
    """What is needed is not there now: no driver, no device, no server."""

    exit_code = 3
    http_status = 503


class Denied(AndonError):
    """It is there, and this caller may not use it."""

    exit_code = 4
    http_status = 403


class Gone(AndonError):
    """It was there and is not any more, or never was."""

    exit_code = 5
    http_status = 404


class Conflict(AndonError):
    """Somebody else has it, or it changed meanwhile."""

    exit_code = 6
    http_status = 409


class Invalid(AndonError):
    """The caller said something that makes no sense."""

    exit_code = 2
    http_status = 422


class TimedOut(Conflict):
    """Somebody else had it for as long as the caller was willing to wait."""

    exit_code = 75
