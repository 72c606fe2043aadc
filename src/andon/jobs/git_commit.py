"""Runs git for a commit in the background; `submit` starts it before it imports the rest."""

import os
import re
import select
import time

GIT_SECONDS = 0.3
EXIT_SECONDS = 0.2  # after SIGKILL; one that is stuck in the kernel is left behind
_COMMIT = re.compile(rb"[0-9a-f]{40,64}\n")


class GitCommitLookup:
    """Looks up the commit of a folder in the background."""

    def __init__(self, folder: str = ".") -> None:
        self._pid: int | None = None
        self._answer, write_end = os.pipe()
        try:
            # Not subprocess, whose import takes longer than git does.
            self._pid = os.posix_spawnp(
                "git",
                ["git", "-C", folder, "--no-optional-locks", "rev-parse", "--verify", "HEAD"],
                {name: value for name, value in os.environ.items() if name},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, write_end, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
            )
        except OSError:
            os.close(self._answer)
        finally:
            os.close(write_end)

    def answer(self) -> str | None:
        """Returns the commit; None if there is none, or if git takes too long."""
        if self._pid is None:
            return None
        output, ended = b"", False
        give_up = time.monotonic() + GIT_SECONDS
        while not ended and self._has_more(give_up):
            piece = os.read(self._answer, 4096)
            output, ended = output + piece, not piece
        os.close(self._answer)
        if not ended:
            import signal

            os.kill(self._pid, signal.SIGKILL)  # not reaped yet, so the pid is still its own
        self._reap(self._pid)
        self._pid = None
        return output.decode().strip() if ended and _COMMIT.fullmatch(output) else None

    def _reap(self, pid: int) -> None:
        give_up, pause = time.monotonic() + EXIT_SECONDS, 0.0005
        try:
            while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < give_up:
                time.sleep(pause)
                pause *= 2
        except ChildProcessError:  # SIGCHLD is ignored, as whoever started this may have set it
            return

    def _has_more(self, give_up: float) -> bool:
        watched = select.poll()  # `select` takes no descriptor over 1023, as a server may have
        watched.register(self._answer, select.POLLIN)
        return bool(watched.poll(max(0.0, give_up - time.monotonic()) * 1000))
