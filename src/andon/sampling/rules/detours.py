"""The message for a vendor that can be read in two ways: when the second is used, or fails too."""

from msgspec.structs import replace

from andon.model.device import Fault, FaultCode


def used_instead(first: Fault, command: str) -> Fault:
    """The fault while the second way works: it disproves that no driver is installed."""
    return replace(
        first,
        reason=f"{first.reason}; using {command} instead",
        hint=_other_hint(command) if first.code == FaultCode.NO_DRIVER else first.hint,
        code=FaultCode.OTHER_BACKEND,
    )


def both_failed(first: Fault, second: Fault, command: str) -> Fault:
    """Returns both reasons, and the hint of the one that explains more.

    A library that is not found explains little if the command is installed: how that fails shows
    what is wrong.
    """
    telling = second if first.code == FaultCode.NO_DRIVER else first
    reason = first.reason
    if second.reason != first.reason:
        named = "" if second.reason.startswith(command) else f"{command}: "
        reason = f"{first.reason}; {named}{second.reason}"
    return replace(
        first,
        reason=reason,
        hint=telling.hint or first.hint,
        code=telling.code or first.code,
    )


def _other_hint(command: str) -> str:
    return (
        f"the driver is installed, only its library is missing: find it with andon doctor. With "
        f"{command}, readings are slower and fewer"
    )
