"""Parses the answers of a container engine: its kind, how a container ended, why something
failed."""

import json
import re
from collections.abc import Callable
from typing import Any

from andon.errors import AndonError, Denied, Gone, Invalid, Unavailable
from andon.model.execution import WorkEnd
from andon.work.containers.rules.arguments import (
    DOCKER,
    PODMAN,
    EngineFacts,
)

NOT_EXECUTABLE, NOT_FOUND, LARGEST_CODE = 126, 127, 255
_LONGEST = 300

Make = Callable[[str, str], AndonError]

_ENGINE_ERRORS: tuple[tuple[str, Make], ...] = (
    (
        r"permission denied .*(?:connect|socket)|connect: permission denied",
        lambda name, text: Denied(
            f"no permission to use the {name.capitalize()} engine's socket",
            hint="have root add you to its group (sudo usermod -aG docker $USER), and log in again",
        ),
    ),
    (
        r"(?i:cannot connect to (?:the docker daemon|podman))|connection refused"
        r"|no such file or directory.*\.sock|error during connect",
        lambda name, text: Unavailable(
            f"the {name.capitalize()} engine is not running",
            hint=f"start it: sudo systemctl start {name}",
        ),
    ),
    (
        r"could not select device driver",
        lambda name, text: Unavailable(
            f"the {name.capitalize()} engine cannot give GPUs to containers",
            hint="install the NVIDIA Container Toolkit and restart the engine",
        ),
    ),
    (
        r"unresolvable CDI device",
        lambda name, text: Unavailable(
            f"the {name.capitalize()} engine does not know these GPUs (CDI)",
            hint="describe them: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
        ),
    ),
    (
        r"bind source path does not exist: (?P<what>\S+)|statfs (?P<there>\S+): no such file",
        lambda name, text: Gone(f"there is no folder {text}", hint="see --mount"),
    ),
    (
        r"unknown (?:flag|shorthand flag): (?P<what>.+)",
        lambda name, text: Invalid(
            f"{name} has no option {text}", hint="see --container-option"
        ),
    ),
    (
        r"unable to find user (?P<what>\S+?):",
        lambda name, text: Gone(f"the image has no user {text}", hint="see --container-user"),
    ),
)  # fmt: skip

_PROGRAM_ERRORS = (
    (r"executable file not found|exec[^\n]*no such file or directory|stat [^\n]*no such file",
     NOT_FOUND, "command not found"),
    (r"exec[^\n]*(?:permission denied|is a directory)|permission denied", NOT_EXECUTABLE,
     "not executable"),
    (r"exec format error", NOT_EXECUTABLE, "built for another processor"),
)  # fmt: skip


def engine_facts(text: str) -> EngineFacts:
    """Parses `docker info --format {{json .}}`; podman answers to that name too."""
    value = _object(text)
    if isinstance(host := value.get("host"), dict):
        security = host.get("security")
        rootless = isinstance(security, dict) and security.get("rootless") is True
        return EngineFacts(PODMAN, rootless)
    options = value.get("SecurityOptions")
    names = [str(one) for one in options] if isinstance(options, list) else []
    return EngineFacts(DOCKER, any("name=rootless" in one for one in names))


def server_errors(text: str) -> str:
    """Returns the client's errors about an engine that it cannot reach."""
    found = _object(text).get("ServerErrors")
    return "; ".join(map(str, found)) if isinstance(found, list) else ""


def engine_error(name: str, stderr: str) -> AndonError:
    """Returns the error for an engine's message; an unknown message becomes the error's text."""
    for pattern, make in _ENGINE_ERRORS:
        if match := re.search(pattern, stderr):
            named = [value for value in match.groupdict().values() if value]
            return make(name, named[0].strip(" .\"'") if named else "")
    return Unavailable(f"{name}: {first_line(stderr)}")


def is_missing_image(stderr: str) -> bool:
    return re.search(r"(?i)no such image|image not known|failed to find image", stderr) is not None


def program_error(program: str, image: str, stderr: str) -> tuple[str, int] | None:
    """The sentence and exit code if a program cannot be run in its image; None for other errors."""
    if "could not select device driver" in stderr or "CDI" in stderr:
        return None
    for pattern, code, problem in _PROGRAM_ERRORS:
        if re.search(pattern, stderr):
            return f"{program}: {problem} in the image {image}", code
    return None


def created_id(text: str) -> str | None:
    """Returns the id in the last line of `docker create`'s output; None if that is no id."""
    last = text.strip().rpartition("\n")[2].strip()
    return last if re.fullmatch(r"[0-9a-zA-Z][0-9a-zA-Z_.-]{0,127}", last) else None


def ended(text: str) -> WorkEnd | None:
    """Parses a container's state; None while it runs. One that never started has an error."""
    state = _object(text)
    status = state.get("Status")
    if not isinstance(status, str):
        return WorkEnd(None)
    if status in ("running", "paused", "restarting", "removing", "stopping"):
        return None
    code = state.get("ExitCode")
    error = str(state.get("Error") or "")
    if status in ("created", "configured", "initialized") and not error:
        error = "it was never started"
    known = code if type(code) is int and 0 <= code <= LARGEST_CODE else None
    return WorkEnd(known, state.get("OOMKilled") is True, error)


def first_pid(text: str) -> int | None:
    """Returns the host's pid of a container's first process, while it runs."""
    pid = _object(text).get("Pid")
    return pid if isinstance(pid, int) and pid > 1 else None


def signal_to_send(number: int, kill: int, handled: int | None) -> int:
    """Returns the signal to send to a container's first process so that it ends.

    The kernel drops signals that the first process of a pid namespace has no handler for, where
    any other process would end. `handled` is the kernel's mask of signals that it catches or
    ignores; None if unknown.
    """
    if handled is None or number == kill or handled & (1 << (number - 1)):
        return number
    return kill


def first_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = lines[0] if lines else "it failed without a message"
    return re.sub(r"^(?:Error response from daemon|Error|docker): ", "", text)[:_LONGEST]


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
