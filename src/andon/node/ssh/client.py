"""One host, asked through ssh: what is asked and answered is what commands there print as JSON."""

import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from msgspec import Struct

from andon.errors import AndonError, Invalid, Unavailable
from andon.host.processes.child_output import (
    MOST_BYTES,
    OutputTooLong,
    die_with_parent,
    read_outputs,
)
from andon.model import wire
from andon.node.ssh import failures
from andon.node.ssh.names import checked_host
from andon.node.ssh.script import CONNECT_SECONDS, script, ssh_command
from andon.version import __version__

TIMEOUT_SECONDS = 10.0
MOST_VALUES = 1_000_000
LONGEST_LINE = MOST_BYTES
LONGEST_SAID = 1 << 16
STATUS = ("status", "--json", "--verdicts")
LEASES = ("leases", "--json")
SMI = "nvidia-smi"
_COMMANDS: dict[str, Sequence[str]] = {
    "/api/snapshot": STATUS,
    "/api/leases": LEASES,
    "/api/jobs": ("jobs", "--json"),
    "/api/topology": ("devices", "--topology", "--json"),
}
"""Requests to a server, and the commands that print the same."""


class SshTerms(Struct, frozen=True):
    """How hosts are asked."""

    timeout_seconds: float = TIMEOUT_SECONDS
    until: float | None = None  # when all questions together end, in monotonic time
    turn: "threading.Lock | None" = None
    """A lock that whoever asks has: it is let go while a host is waited for."""


class SshHost:
    """A host whose andon answers as a server's REST interface would, in one connection each."""

    def __init__(self, name: str, andon: str = "", terms: SshTerms | None = None) -> None:
        """`andon`: where it is there, if not where it is looked for."""
        self.name = checked_host(name.removeprefix("ssh:") if "://" not in name else name)
        self.url = name if "://" in name else f"ssh:{self.name}"
        self.version: str | None = None  # of andon there, once it has answered
        self.by: str | None = None  # `andon 0.1` or nvidia-smi
        self._andon, self._terms = andon, terms or SshTerms()
        self._timeout = self._terms.timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def closed(self) -> bool:
        return self._closed

    # As a server.

    def get(self, path: str, **asked: object) -> wire.Json:
        given = {name: str(value) for name, value in asked.items() if value is not None}
        return self.ask(_words(f"{path}?{urlencode(given)}" if given else path))[0]

    def post(self, path: str, body: wire.Json | None = None) -> wire.Json:
        raise self.refused()

    def delete(self, path: str) -> wire.Json:
        raise self.refused()

    def fetch(self, path: str, most_bytes: int, sink: Callable[[bytes], object]) -> None:
        raise self.refused()

    def refused(self) -> AndonError:
        hint = f"type it there: ssh -t {self.name} andon …"
        return Unavailable("nothing is changed on a host over SSH", hint=hint)

    def of_another_version(self, difference: str) -> AndonError:
        there = self.version or "of another version"
        newer = _numbers(there) > _numbers(__version__)
        hint = "upgrade here" if newer else "upgrade there"
        return Unavailable(f"runs andon {there}: {hint} ({difference})", cause="ssh")

    # By ssh.

    def ask(self, *commands: Sequence[str]) -> list[wire.Json]:
        """Returns what each of these commands prints there as JSON, in one connection. By
        nvidia-smi, a status is made of its report, and nothing else is known."""
        kind, body = self._run({"ask": [list(command) for command in commands]})
        if kind == SMI:
            from andon.node.ssh.smi import status_from_smi

            self.by = SMI
            if any(command != STATUS for command in commands):
                raise Unavailable("only nvidia-smi there, which does not know it",
                                  hint=failures.NO_ANDON)  # fmt: skip
            return [status_from_smi(body, self.name, time.time())] * len(commands)
        lines = [line for line in body.splitlines() if line.strip()]
        self._heard(lines[0] if lines else b"")
        if len(lines) != len(commands) + 1:
            raise Unavailable("its answer is not complete", cause="ssh")
        return [self._answer(line) for line in lines[1:]]

    def follow(self, command: Sequence[str]) -> Iterator[wire.Json | bytes]:
        """Yields what a command there prints line by line, until it fails; nvidia-smi's report is
        one of bytes, and the last."""
        nonce, late, heard = secrets.token_hex(16), threading.Event(), _Heard()
        with self._started(nonce) as process:
            said = _Drain(process.stderr)

            def give_up() -> None:
                late.set()
                self._end(process)

            limit = threading.Timer(self._timeout, give_up)
            limit.start()  # until the first line; afterwards silence is shown by its age
            try:
                for line in self._followed(process, nonce, {"follow": list(command)}, heard):
                    limit.cancel()
                    yield wire.loads(line, MOST_VALUES)
            except Invalid as exc:
                raise self._unreadable() from exc
            finally:
                limit.cancel()
                self._end(process)
        if heard.report:
            self.by = SMI
            yield bytes(heard.report)
            return
        if late.is_set():
            raise Unavailable(f"no answer after {self._timeout:g} s", cause="ssh")
        if not heard.kind:
            code = process.returncode
            raise failures.not_connected(self.name, code, b"", said.text, self._connect)
        raise failures.ended(heard.kind, said.text)

    def _followed(
        self, process: "subprocess.Popen[bytes]", nonce: str, request: wire.Json, heard: "_Heard"
    ) -> Iterator[bytes]:
        """Yields the lines of an andon there; those of nvidia-smi are kept."""
        assert process.stdout is not None
        greeted = False
        while line := process.stdout.readline(LONGEST_LINE):
            mark, _, word = line.strip().decode(errors="replace").partition(" ")
            if mark == nonce and word == "begin":
                self._send(process, request)
            elif mark == nonce:
                if heard.kind:
                    return  # its end
                heard.kind = word.partition(" ")[0]
            elif heard.kind == SMI and len(heard.report) < MOST_BYTES:
                heard.report += line
            elif heard.kind == "andon" and line.strip():
                if greeted:
                    yield line
                else:
                    greeted = True
                    self._heard(line)

    def close(self) -> None:
        """Ends the ssh that is running, from another thread too; none is started afterwards."""
        with self._lock:
            self._closed, process = True, self._process
        if process is not None:
            self._end(process)

    @property
    def _connect(self) -> float:
        return min(CONNECT_SECONDS, self._timeout)

    def _run(self, request: wire.Json) -> tuple[str, bytes]:
        """Returns who answered and what it printed."""
        nonce, until = secrets.token_hex(16), self._terms.until or time.monotonic() + self._timeout
        told = False

        def heard(out: bytearray) -> None:
            nonlocal told
            if not told and f"\n{nonce} begin".encode() in out:
                told = True
                self._send(process, request)

        with self._meanwhile(), self._started(nonce) as process:
            try:
                out, said = read_outputs(process, until, heard)
            except TimeoutError as exc:
                where = "it is connected, but " if told else ""
                raise Unavailable(f"{where}no answer after {self._timeout:g} s", cause="ssh",
                                  hint="more time: --timeout 30") from exc  # fmt: skip
            except OutputTooLong as exc:
                raise Unavailable(str(exc.strerror), cause="ssh") from exc
            finally:
                self._end(process)
        if not told:
            code = process.returncode
            raise failures.not_connected(self.name, code, out, said, self._connect)
        after = out.partition(f"\n{nonce} begin\n".encode())[2].lstrip()
        head, _, rest = after.partition(b"\n")
        kind = head.removeprefix(nonce.encode()).decode(errors="replace").split()[:1]
        body, ended, code_text = rest.rpartition(f"\n{nonce} end ".encode())
        if kind not in (["andon"], [SMI]) and kind:
            raise failures.without_andon(kind[0])
        if not ended or not kind:
            raise failures.lost_midway(said)
        if not body.strip():
            code = int(code_text) if code_text.strip().isdigit() else 1
            raise failures.failed_there(code, said.decode(errors="replace"))
        return kind[0], body

    @contextmanager
    def _meanwhile(self) -> Iterator[None]:
        """Lets others have their turn."""
        turn = self._terms.turn
        if turn is None:
            yield
            return
        turn.release()
        try:
            yield
        finally:
            turn.acquire()

    def _started(self, nonce: str) -> "subprocess.Popen[bytes]":
        command = ssh_command(self.name, self._timeout)
        with self._lock:
            if self._closed:
                raise Unavailable("it was not asked any more", cause="ssh")
            try:
                process = self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    start_new_session=True,  # so that all that it starts ends with it
                    preexec_fn=die_with_parent,  # a host that hangs does not notice our end
                )  # fmt: skip
            except OSError as exc:
                raise Unavailable(f"ssh cannot be started: {exc.strerror}", cause="ssh") from exc
        assert process.stdin is not None
        with suppress(OSError):  # it has ended, which is found out below
            process.stdin.write(script(nonce))
            process.stdin.flush()
        return process

    def _send(self, process: "subprocess.Popen[bytes]", request: wire.Json) -> None:
        assert process.stdin is not None
        place = "".join(c for c in self._andon if c.isprintable())
        with suppress(OSError):
            process.stdin.write(f"{place}\n{wire.dumps(request)}\n".encode())
            process.stdin.flush()

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Ends ssh and what it started; on the host the end of its input ends the rest."""
        with suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        if process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _heard(self, line: bytes) -> None:
        """Takes the first line of an andon there: its version."""
        try:
            said = wire.loads(line, MOST_VALUES).get("andon")
        except Invalid as exc:
            raise self._unreadable() from exc
        self.version = str(said)[:40]
        self.by = f"andon {self.version}"

    def _answer(self, line: bytes) -> wire.Json:
        try:
            found = wire.loads(line, MOST_VALUES)
        except Invalid as exc:
            raise self._unreadable() from exc
        code, said, out = (found.get(name) for name in ("code", "said", "out"))
        if isinstance(out, dict):
            return out
        raise failures.failed_there(code if isinstance(code, int) else 1, str(said or ""))

    def _unreadable(self) -> AndonError:
        return Unavailable("andon there answers, but not in JSON", hint=f"see: ssh {self.name} "
                           "andon status --json", cause="ssh")  # fmt: skip


def _words(path: str) -> Sequence[str]:
    """Returns the command that prints what a server has at this path."""
    parts = urlsplit(path)
    asked = dict(parse_qsl(parts.query))
    if parts.path in _COMMANDS:
        return _COMMANDS[parts.path]
    if parts.path == "/api/alerts":
        since = f"@{float(asked['since']):.3f}" if "since" in asked else "1s"
        device = ("--device", asked["device"]) if "device" in asked else ()
        return ("alerts", "--json", "--since", since, *device)
    if parts.path.startswith("/api/alerts/"):
        words = [unquote(word) for word in parts.path.split("/")[3:]]
        return ("alerts", *(words if words[0] == "rules" else ("show", *words)), "--json")
    raise Unavailable(f"a host over SSH has no {parts.path}")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split("+")[0].split(".") if part.isdecimal()]


class _Heard:
    """What a host that is followed has said of itself."""

    def __init__(self) -> None:
        self.kind, self.report = "", bytearray()


class _Drain:
    """The first words of an output that nobody may have to wait for."""

    def __init__(self, stream: "IO[bytes] | None") -> None:
        self.text = b""
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: "IO[bytes]") -> None:
        with suppress(OSError, ValueError):  # it was closed meanwhile
            while piece := stream.read1(1 << 16):  # type: ignore[attr-defined]
                self.text += piece[: max(0, LONGEST_SAID - len(self.text))]
