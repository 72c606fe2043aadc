"""One host, read through ssh: requests are andon commands there, answers the JSON they print."""

import math
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Self

from andon.errors import AndonError, Invalid, Unavailable
from andon.model import wire
from andon.node.ssh import failures
from andon.node.ssh.calls import SshCall, SshLimits
from andon.node.ssh.names import checked_host
from andon.units import sh
from andon.version import __version__

TIMEOUT_SECONDS = 10.0
STATUS = ("status", "--json", "--judged")
LEASES = ("leases", "--json")
_COMMANDS: dict[str, Sequence[str]] = {
    "/api/snapshot": STATUS,
    "/api/leases": LEASES,
    "/api/jobs": ("jobs", "--json", "--look"),
    "/api/checks": ("checks", "--json"),
    "/api/topology": ("devices", "--topology", "--json"),
}
"""Requests to a server, and the commands that print the same."""
Printed = wire.Json | list[wire.Json] | bytes
"""What a command there printed: an object, a list of those that it printed line by line, or the
report of nvidia-smi."""


class SshHost:
    """Implements RestServer by running andon on a host, in one connection for each query."""

    def __init__(
        self,
        name: str,
        andon: str = "",
        seconds: float = TIMEOUT_SECONDS,
        limits: SshLimits | None = None,
    ) -> None:
        """`andon` is its path on the host, if it is not in a usual place. `seconds` is the limit of
        each query, unless `limits` are shared with other hosts."""
        self.name = checked_host(name.removeprefix("ssh:") if "://" not in name else name)
        self.url = name if "://" in name else f"ssh:{self.name}"
        self.by: str | None = None  # `andon 0.1` or nvidia-smi, once it has answered
        self.closed = False
        self.limits = limits
        self._andon, self.seconds = andon, seconds
        self._following: SshLimits | None = None

    # As a server.

    def as_user(self) -> Self:
        return self

    def get(self, path: str, **query: object) -> wire.Json:
        from urllib.parse import urlencode

        given = {name: str(value) for name, value in query.items() if value is not None}
        return self.object(_command_for(f"{path}?{urlencode(given)}" if given else path))

    def post(self, path: str, body: wire.Json | None = None) -> wire.Json:
        hint = f"type it there: ssh -t {sh(self.name)} andon …"
        raise Unavailable("nothing is changed on a host over SSH", hint=hint)

    def delete(self, path: str) -> wire.Json:
        return self.post(path)

    def fetch(self, path: str, most_bytes: int, sink: Callable[[bytes], object]) -> None:
        self.post(path)

    def of_another_version(self, difference: str) -> AndonError:
        there = (self.by or "of another version").removeprefix("andon ")
        newer = _numbers(there) > _numbers(__version__)
        hint = "upgrade here" if newer else "upgrade there"
        return Unavailable(f"runs andon {there}: {hint} ({difference})", cause="ssh")

    # By ssh.

    def object(self, command: Sequence[str]) -> wire.Json:
        """Returns the object that a command there prints."""
        return self.objects(command)[0]

    def objects(self, *commands: Sequence[str]) -> list[wire.Json]:
        """Returns the object that each of these commands prints there."""
        found = [one for one in self.ask(*commands) if isinstance(one, dict)]
        if len(found) == len(commands):
            return found
        raise failures.only_smi()

    def ask(self, *commands: Sequence[str]) -> list[Printed]:
        """Returns what each of these commands prints on the host, in one connection; if only
        nvidia-smi is there, its report alone."""
        return self._request({"ask": [list(command) for command in commands]}, len(commands))

    def desk(self, call: str, *arguments: Any) -> Printed:
        """Returns the answer of the job desk there, from which this user submits, lists and ends
        jobs of this user."""
        try:
            (found,) = self._request({"desk": call, "arguments": list(arguments)}, 1)
        except Invalid as exc:
            if self.by is not None:
                raise
            raise self.of_another_version(exc.reason) from exc  # it did not even say its version
        if isinstance(found, bytes):
            raise failures.only_smi()
        return found

    def _request(self, request: wire.Json, count: int) -> list[Printed]:
        limits = self.limits or SshLimits(self.seconds)
        with self._call(request, limits) as call:
            while not call.is_over():
                pass
        return self._answers(call, count)

    def follow(
        self, command: Sequence[str], *first: Sequence[str]
    ) -> Generator[wire.Json | bytes, None, None]:
        """Yields each line that `first` and then `command` print on the host, until it fails; if
        only nvidia-smi is there, its report alone."""
        limits = self.limits
        if limits is None:
            limits = self._following = SshLimits(self.seconds, ends=False)
        until = time.monotonic() + limits.seconds  # afterwards silence is shown by its age
        with self._call({"first": [*map(list, first)], "follow": list(command)}, limits) as call:
            greeted = over = False
            while not over and not self.closed and not call.late:
                over = call.is_over()
                for line in call.lines():
                    if greeted:
                        until = math.inf
                        yield self._loaded(line)
                    else:
                        greeted = True
                        self._greeted(line)
                call.late |= time.monotonic() > until
        if not self.closed:
            report = call.answer()
            self.by = failures.SMI
            yield report

    def _call(self, request: wire.Json, limits: SshLimits) -> SshCall:
        return SshCall(self.name, self._andon, request, limits)

    def close(self) -> None:
        """Ends the connection that follows the host; may be called from another thread."""
        self.closed = True
        if self._following is not None:
            self._following.end()

    def _answers(self, call: SshCall, count: int) -> list[Printed]:
        body = call.answer()
        if call.kind == failures.SMI:
            self.by = failures.SMI
            return [body] * count
        lines = [line for line in body.splitlines() if line.strip()]
        self._greeted(lines[0])
        if len(lines) != count + 1:
            raise Unavailable("its answer is not complete", cause="ssh")
        return [self._out(line) for line in lines[1:]]

    def _out(self, line: bytes) -> Printed:
        found = self._loaded(line)
        code, message, out = (found.get(name) for name in ("code", "said", "out"))
        if isinstance(out, dict | list):
            return out
        raise failures.far_failure(code if isinstance(code, int) else 1, str(message or ""))

    def _greeted(self, line: bytes) -> None:
        """Stores the version that an andon on the host prints as its first line."""
        self.by = f"andon {str(self._loaded(line).get('andon'))[:40]}"

    def _loaded(self, line: bytes) -> wire.Json:
        try:
            return wire.loads(line, wire.ANSWER)
        except Invalid as exc:
            hint = f"see: ssh {sh(self.name)} andon status --json"
            reason = "andon there answers, but not in JSON"
            raise Unavailable(reason, hint=hint, cause="ssh") from exc


def _command_for(path: str) -> Sequence[str]:
    """Returns the andon command that prints what a server returns for this path."""
    from urllib.parse import parse_qsl, unquote, urlsplit

    parts = urlsplit(path)
    query = dict(parse_qsl(parts.query))
    if parts.path in _COMMANDS:
        return _COMMANDS[parts.path]
    if parts.path == "/api/alerts":
        since = f"@{float(query['since']):.3f}" if "since" in query else "1s"
        device = ("--device", query["device"]) if "device" in query else ()
        return ("alerts", "--json", "--since", since, *device)
    if parts.path.startswith("/api/alerts/"):
        names = [unquote(word) for word in parts.path.split("/")[3:]]
        return ("alerts", *(names if names[0] == "rules" else ("show", *names)), "--json")
    raise Unavailable(f"a host over SSH has no {parts.path}", hint="type it there: ssh HOST andon")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split("+")[0].split(".") if part.isdecimal()]
