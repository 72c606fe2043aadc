"""The five kinds of error, each with an exit code, an HTTP status and a hint."""

from typing import ClassVar


class AndonError(Exception):
    """An error with a known reason. `hint` says what to do about it.

    `mistakes` lists them all where there are several; `cause` is the reason for programs, if any.
    """

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(
        self, reason: str, hint: str = "", mistakes: tuple[str, ...] = (), cause: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # which tracebacks of people's programs show
        self.mistakes = mistakes
        self.cause = cause


class Unavailable(AndonError):
    """Something required is not available now: no driver, no device, no server."""

    exit_code = 3
    http_status = 503


class Denied(AndonError):
    """It exists, but this caller may not use it."""

    exit_code = 4
    http_status = 403


class Gone(AndonError):
    """It no longer exists, or never did."""

    exit_code = 5
    http_status = 404


class Conflict(AndonError):
    """Another user holds it, or it has changed in the meantime."""

    exit_code = 6
    http_status = 409


class Invalid(AndonError):
    """The request, or a setting, is not valid."""

    exit_code = 2
    http_status = 422


class TimedOut(Conflict):
    """Another user held it for as long as the caller was willing to wait."""

    exit_code = 75
