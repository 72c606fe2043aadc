"""Which container an attempt of a job runs in, and whether it is alive: its processes are
neither in the session of the command nor below the supervisor."""

from contextlib import suppress
from pathlib import Path

from andon.host.files import read_regular
from andon.host.processes import kin
from andon.jobs.folder import CONTAINER, SMALL_BYTES, write_whole
from andon.model.job.facts import AttemptClaim


def write_container(attempt: Path, identity: str) -> None:
    """Writes the container's id into the folder of an attempt, before the container starts."""
    write_whole(attempt, CONTAINER, f"{identity}\n")


def container_of(attempt: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        return read_regular(attempt / CONTAINER, SMALL_BYTES).decode("ascii").strip() or None
    return None


def container_lives(attempt: Path, claim: AttemptClaim) -> bool:
    """Whether a process of the attempt's container is alive; checks all of this machine's."""
    identity = container_of(attempt)
    return (
        identity is not None
        and claim.boot == kin.pid_scope().boot
        and kin.container_lives([identity])
    )
