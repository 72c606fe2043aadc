"""Runs commands in containers of Docker or Podman, through the engine's command line.

The command line knows contexts, credentials, rootless sockets and terminals, and is the same for
both engines. Each call has a time limit; one that passes output lasts as long as the container.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from andon.engines.rules import answers as answers
from andon.errors import AndonError, Conflict, Gone, Invalid, Unavailable
from andon.host.files import read
from andon.host.processes.child_output import ask_command
from andon.model.execution import UNLEASED, ContainerOptions, CreatedWork, WorkEnd, WorkOrder
from andon.model.job.pull_policy import PullPolicy
from andon.units import sh
from andon.work.containers.notes import drop_note, is_recent, noted, write_note
from andon.work.containers.rules.arguments import (
    EngineFacts,
    create_arguments,
    without_files,
)
from andon.work.preparing import CannotStart

ANSWER_SECONDS = 30.0
CREATE_SECONDS = 120.0  # a storage driver that copies takes its time
_HOMES = "andon-home-"
_STATUS_BYTES = 4096
_OVER = (
    "no such container", "no such object", "is not running", "can only kill running",
    "no container with",
)  # fmt: skip
_REMOTE = ("tcp://", "ssh://", "http://", "https://")


class DockerEngine:
    """Containers of Docker; also of Podman under Docker's name."""

    name = "docker"

    def __init__(self) -> None:
        self._attached: set[str] = set()

    # Before anything is claimed.

    def check(self, order: WorkOrder) -> None:
        options = _options(order)
        if without_files(order):
            raise Unavailable(
                "this GPU has no file in /dev/dri that a container can be given",
                hint="run the command without --image",
            )
        for source in (order.folder, *(mount.source for mount in options.mounts)):
            if not Path(source).exists():
                raise Gone(f"there is no folder {source}", hint="see --mount")
        self._refuse_remote()
        _ = self.engine
        if not self._has_image(options.image):
            self._pull(options)

    @cached_property
    def engine(self) -> EngineFacts:
        """The engine that answers; raises if none does."""
        if shutil.which(self.name) is None:
            raise Unavailable(
                f"{self.name} is not installed", hint="install Docker or Podman, or omit --image"
            )
        code, out, stderr = self._ask("info", "--format", "{{json .}}")
        stderr = answers.server_errors(out) or stderr
        if code or answers.server_errors(out):
            raise answers.engine_error(self.name, stderr)
        return answers.engine_facts(out)

    def _refuse_remote(self) -> None:
        host = os.environ.get("DOCKER_HOST", "") if self.name == "docker" else ""
        if host.startswith(_REMOTE):
            raise Conflict(
                f"DOCKER_HOST names another machine's engine: {host[:60]}",
                hint="the leased GPUs are on this machine: unset DOCKER_HOST",
            )

    def _has_image(self, image: str) -> bool:
        code, _, stderr = self._ask("image", "inspect", "--format", "{{.Id}}", "--", image)
        if code and not answers.is_missing_image(stderr):
            raise answers.engine_error(self.name, stderr)
        return code == 0

    def _pull(self, options: ContainerOptions) -> None:
        """Pulls the image without a time limit; shows its progress."""
        if options.pull is PullPolicy.NEVER:
            raise Gone(
                f"there is no image {options.image!r} on this machine",
                hint=f"fetch it: {self.name} pull {sh(options.image)}; or use --pull missing",
            )
        command = [self.name, "pull", "--", options.image]
        if subprocess.run(command, stdout=sys.stderr.fileno(), check=False).returncode:
            raise Unavailable(f"the image {options.image!r} could not be fetched")

    # The work itself.

    def create(self, order: WorkOrder) -> CreatedWork:
        options = _options(order)
        home = tempfile.mkdtemp(prefix=_HOMES)
        try:
            if options.user is not None and not self.engine.rootless:
                Path(home).chmod(0o1777)  # that user is not the one who owns it
            order = replace(order, home=home)
            arguments = create_arguments(order, options, self.engine)
            name = f"andon-{order.label}-{os.urandom(8).hex()}"
            work = CreatedWork(name, order.label, order.command[0], options.image, home, name)
            write_note(self.name, work)
            found = self._created(name, arguments)
        except BaseException:
            _remove_home(home)
            raise
        if order.stdin or order.terminal:
            self._attached.add(found)
        work = replace(work, id=found)
        write_note(self.name, work)
        return work

    def _created(self, name: str, arguments: Sequence[str]) -> str:
        """Creates a container and returns its id; if no answer comes in time, its note stays,
        because it may still be created."""
        code, out, stderr = self._ask(
            "create", f"--name={name}", *arguments, seconds=CREATE_SECONDS
        )
        found = None if code else answers.created_id(out)
        if found is None:
            drop_note(CreatedWork(name, "", note=name))
            raise answers.engine_error(self.name, stderr) if code else self._not_understood()
        return found

    def client(self, work: CreatedWork) -> Sequence[str]:
        """Starts the container here, so that a failure can be explained; returns the client
        command that passes on the output.

        With input, the client has to start it itself, or the first bytes would be lost.
        """
        if work.id in self._attached:
            return [self.name, "start", "--attach", "--interactive", work.id]
        code, _, stderr = self._ask("start", work.id, seconds=CREATE_SECONDS)
        if code:
            raise self.not_started(work, stderr)
        return self.follow(work, 0.0)

    def not_started(self, work: CreatedWork, stderr: str) -> AndonError:
        """Returns the error for a container that could not be started."""
        if (found := answers.program_error(work.program, work.image, stderr)) is not None:
            return CannotStart(*found)
        return answers.engine_error(self.name, stderr)

    def follow(self, work: CreatedWork, since: float) -> Sequence[str]:
        moment = [f"--since={since:.3f}"] if since else []
        return [self.name, "logs", "--follow", *moment, work.id]

    def find(self, label: str) -> Sequence[CreatedWork]:
        """Finds containers by andon's own notes: anyone who may use the engine can write a
        label."""
        return self._existing(work for work in noted(self.name) if work.label == label)

    def send(self, work: CreatedWork, number: int) -> None:
        """Sends a signal to the container's first process, the ancestor of all others."""
        if number == signal.SIGCONT:
            return  # a container is never stopped by us
        sent = answers.signal_to_send(number, signal.SIGKILL, self._handled(work))
        code, _, stderr = self._ask("kill", f"--signal={sent}", work.id)
        if code and not _is_over(stderr):
            raise answers.engine_error(self.name, stderr)

    def ended(self, work: CreatedWork) -> WorkEnd | None:
        end = answers.ended(self._state(work))
        if end is not None and end.code is None and not end.error:
            raise self._not_understood()
        return end

    def clean(self, work: CreatedWork) -> None:
        code, _, stderr = self._ask("rm", "--force", "--volumes", work.id)
        if code and not _is_over(stderr):
            raise answers.engine_error(self.name, stderr)
        _remove_home(work.home)
        drop_note(work)
        self._attached.discard(work.id)

    def leftovers(self, living: frozenset[str]) -> Sequence[CreatedWork]:
        """Returns this user's ended containers without a lease: left by a killed supervisor."""
        found = [w for w in noted(self.name) if w.label not in living]
        existing = self._existing(w for w in found if not w.label.startswith(UNLEASED))
        return [work for work in existing if answers.ended(self._state(work)) is not None]

    # Asking the engine.

    def _existing(self, works: Iterable[CreatedWork]) -> list[CreatedWork]:
        """Returns the containers that the engine still has; the notes of others are removed."""
        found: list[CreatedWork] = []
        for work in works:
            try:
                self._state(work)
            except Gone:
                if not is_recent(work):
                    _remove_home(work.home)
                    drop_note(work)
            else:
                found.append(work)
        return found

    def _state(self, work: CreatedWork) -> str:
        arguments = ("inspect", "--type=container", "--format={{json .State}}", work.id)
        code, out, stderr = self._ask(*arguments)
        if code and _is_over(stderr):
            raise Gone(f"there is no container {work.id[:12]}", hint="it has been removed")
        if code:
            raise answers.engine_error(self.name, stderr)
        return out

    def _handled(self, work: CreatedWork) -> int | None:
        """Returns the mask of signals that the container's first process catches or ignores."""
        masks: list[int] = []
        with suppress(AndonError):
            pid = answers.first_pid(self._state(work))
            status = read(f"/proc/{pid}/status", _STATUS_BYTES) or b""
            lines = [line.split() for line in status.splitlines()]
            masks = [int(line[1], 16) for line in lines if line[:1] in ([b"SigIgn:"], [b"SigCgt:"])]
        return masks[0] | masks[1] if len(masks) == 2 else None

    def _ask(self, *arguments: str, seconds: float = ANSWER_SECONDS) -> tuple[int, str, str]:
        """Returns exit code, output and error output of the engine's command."""
        try:
            return ask_command([self.name, *arguments], seconds)
        except TimeoutError as exc:
            raise Unavailable(
                f"the {self.name.capitalize()} engine has not answered for {seconds:.0f} s",
                hint=f"check it: {self.name} ps",
            ) from exc
        except OSError as exc:
            raise Unavailable(f"{self.name} cannot be run: {exc.strerror}") from exc
        except ValueError as exc:  # a zero byte in a name
            raise Invalid(f"{self.name} cannot be run: {exc}") from exc

    def _not_understood(self) -> AndonError:
        return Unavailable(
            f"the answer of the {self.name.capitalize()} engine is not understood",
            hint=f"check it: {self.name} ps",
        )


class PodmanEngine(DockerEngine):
    """Containers of Podman: the same commands, devices by their CDI names."""

    name = "podman"


def _options(order: WorkOrder) -> ContainerOptions:
    if order.container is None:
        raise Invalid("no image was named", hint="--image IMAGE")
    return order.container


def _is_over(stderr: str) -> bool:
    return any(phrase in stderr.lower() for phrase in _OVER)


def _remove_home(home: str | None) -> None:
    """Removes a container's home, only if we made it and it is still this user's."""
    if home is None or not Path(home).name.startswith(_HOMES):
        return
    with suppress(OSError):
        if Path(home).lstat().st_uid == os.getuid():
            shutil.rmtree(home, ignore_errors=True)
