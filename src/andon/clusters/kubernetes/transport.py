"""Requests to Kubernetes' API: by the person's own `kubectl`, or from inside the cluster by HTTPS.

`kubectl` knows contexts, logins and proxies. Inside a pod the service account's token and
certificate are used; the token is read for each request, because it changes.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from andon.clusters.kubernetes.rules.failures import of_kubectl, of_status
from andon.clusters.kubernetes.rules.manifest import KubernetesOptions
from andon.errors import Denied, Invalid, Unavailable
from andon.host.files import read_regular
from andon.host.processes.child_output import ask_command, die_with_parent
from andon.node.connection import FAILURES, TimedConnection
from andon.units import human_seconds

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
MOST_BYTES: Final = 64 << 20
PIECE_BYTES: Final = 1 << 16
LONGEST_WAIT_SECONDS: Final = 5.0
"""Of a Retry-After, within the time limit."""
_VERBS: Final = {  # the server checks what it gets; an older kubectl would fetch all schemas first
    "GET": ("get",), "POST": ("create",), "PUT": ("replace", "--validate=false"),
    "DELETE": ("delete",),
}  # fmt: skip


class ApiTransport(Protocol):
    """Makes requests to the API. Raises one of andon's errors, in one sentence."""

    identity: str
    """Which server it asks, and as whom."""

    def ask(self, method: str, path: str, body: str = "") -> bytes:
        """Makes one request; returns the body of a good answer."""

    def stream(self, path: str, seconds: float) -> Iterator[bytes]:
        """Yields the answer to a request in pieces, until it ends or for this long. Closing the
        iterator ends the request."""

    def namespace(self) -> str:
        """Returns the namespace that is used where none is named."""


def transport_of(options: KubernetesOptions, seconds: float) -> ApiTransport:
    """Returns the service account's transport inside a cluster; outside of one, or if a context is
    named, that of `kubectl`."""
    host = os.environ.get(HOST)
    if host and not options.context and (ACCOUNT / "token").exists():
        return InsideTransport(host, int(os.environ.get(PORT, "443")), seconds, ACCOUNT)
    return KubectlTransport(options.context, seconds)


class KubectlTransport:
    """Implements ApiTransport with `kubectl`."""

    def __init__(self, context: str, seconds: float) -> None:
        self._command = ["kubectl", *([f"--context={context}"] if context else [])]
        self._seconds = seconds
        self.identity = f"{context} {_configuration()}"

    def ask(self, method: str, path: str, body: str = "") -> bytes:
        verb = [*_VERBS[method], "--raw", path, *(["-f", "-"] if body else [])]
        return self._run(*verb, text=body).encode("utf-8", "surrogateescape")

    def namespace(self) -> str:
        form = "-o=jsonpath={.contexts[0].context.namespace}"
        return self._run("config", "view", "--minify", form).strip() or "default"

    def stream(self, path: str, seconds: float) -> Iterator[bytes]:
        try:
            process = subprocess.Popen(
                [*self._command, "get", "--raw", path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        except OSError as exc:
            raise _no_kubectl(exc) from exc
        until = time.monotonic() + seconds
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            while piece := os.read(process.stdout.fileno(), PIECE_BYTES):
                yield piece
                if time.monotonic() > until:
                    return
            stderr = process.stderr.read(PIECE_BYTES).decode("utf-8", "replace")
            if process.wait():
                raise of_kubectl(stderr)
        finally:
            process.kill()
            process.stdout.close()
            process.stderr.close()
            process.wait()

    def _run(self, *arguments: str, text: str = "") -> str:
        limit = f"--request-timeout={max(1, int(self._seconds))}s"
        try:
            code, out, stderr = ask_command(
                [*self._command, limit, *arguments], self._seconds, text
            )
        except TimeoutError as exc:
            raise Unavailable(f"no answer within {human_seconds(self._seconds)}") from exc
        except OSError as exc:
            raise _no_kubectl(exc) from exc
        if code:
            raise of_kubectl(stderr or out)
        return out


def _configuration() -> str:
    """Returns a digest of kubectl's files, which differs for another context, server or login."""
    given = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    found = blake2b(digest_size=16)
    for path in given.split(os.pathsep):
        with suppress(OSError, ValueError):
            found.update(read_regular(path, MOST_BYTES, follow=True))
    return found.hexdigest()


def _no_kubectl(exc: OSError) -> Invalid | Unavailable:
    if isinstance(exc, FileNotFoundError):
        return Invalid("there is no kubectl on PATH", hint="install it, and log in to the cluster")
    return Unavailable(f"kubectl cannot be run: {exc.strerror or exc}")


class InsideTransport:
    """Implements ApiTransport in a pod."""

    def __init__(self, host: str, port: int, seconds: float, account: Path) -> None:
        self._host, self._port, self._seconds, self._account = host, port, seconds, account
        self.identity = f"{host}:{port}"

    def namespace(self) -> str:
        with suppress(OSError):
            return (self._account / "namespace").read_text().strip() or "default"
        return "default"

    def ask(self, method: str, path: str, body: str = "") -> bytes:
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                with closing(self._connect(deadline)) as connection:
                    status, headers, answer = self._exchange(connection, method, path, body)
            except FAILURES as exc:
                raise _no_answer(exc, self._seconds) from exc
            wait = _retry_seconds(headers) if status == 429 else None
            if wait is None or time.monotonic() + wait > deadline:
                break
            time.sleep(wait)
        if status >= 300:
            raise of_status(status, answer)
        return answer

    def stream(self, path: str, seconds: float) -> Iterator[bytes]:
        try:
            with closing(self._connect(time.monotonic() + self._seconds)) as connection:
                connection.request("GET", path, headers=self._headers())
                answer = connection.getresponse()
                if answer.status >= 300:
                    raise of_status(answer.status, answer.read(PIECE_BYTES))
                connection.renew(time.monotonic() + seconds)
                while piece := answer.read1(PIECE_BYTES):
                    yield piece
        except TimeoutError:  # it lasted as long as it may
            return
        except FAILURES as exc:
            raise _no_answer(exc, self._seconds) from exc

    def _connect(self, deadline: float) -> TimedConnection:
        return TimedConnection(
            self._host, self._port, deadline, True, str(self._account / "ca.crt")
        )

    def _exchange(
        self, connection: TimedConnection, method: str, path: str, body: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        typed = {"Content-Type": "application/json"} if body else {}
        given = body.encode() or None
        connection.request(method, path, given, {**self._headers(), **typed})
        answer = connection.getresponse()
        content = answer.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"its answer is larger than {MOST_BYTES} bytes")
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, content

    def _headers(self) -> dict[str, str]:
        try:
            token = (self._account / "token").read_text().strip()
        except OSError as exc:
            raise Denied(f"the service account's token cannot be read: {exc.strerror}") from exc
        return {"Accept": "application/json", "Authorization": f"Bearer {token}"}


def _retry_seconds(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "1")
    return min(LONGEST_WAIT_SECONDS, float(text)) if text.isdecimal() else 1.0


def _no_answer(exc: Exception, seconds: float) -> Unavailable:
    if isinstance(exc, TimeoutError):
        return Unavailable(f"no answer within {human_seconds(seconds)}")
    return Unavailable(f"Kubernetes does not answer: {exc}"[:300])
