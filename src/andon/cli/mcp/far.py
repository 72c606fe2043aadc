"""What `--allow act` does at a server, over REST: the server checks rights and writes its audit."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import click
from msgspec import Struct

from andon.cli.moments import exact_moment
from andon.cli.terminal import Choices, Terminal, guarded
from andon.errors import Gone, Invalid
from andon.model.codec import Text, read, read_document
from andon.model.lease_list import LeaseList
from andon.model.wire import Json
from andon.node.remote.leases import row_of
from andon.node.rest import RestServer
from andon.node.server import connect
from andon.units import parse_seconds

_KEYS = {"at_most": "for"}  # of a job file, where it is not the parameter's name
_FIELDS = {"model": "models"}  # of a request over REST


class _Caller(Struct, frozen=True):
    """Who a key is for; a token proves no person, and acts for who runs the server."""

    user: Text | None = None
    server_user: Text | None = None


class FarActs:
    """Acts at a server with this person's key, on what is theirs."""

    def __init__(self, url: str, token_file: str | None) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise Invalid("--allow act needs the http or https URL of a server")
        self._url, self._token_file = url, token_file

    def refuse_others(self, lease: str) -> None:
        """Raises Gone for a lease that is not this person's, whatever the key may do besides."""
        server = self._server()
        try:
            caller = read(_Caller, server.get("/api/session"))
            row = row_of(read_document(LeaseList, server.get("/api/leases")), lease)
        finally:
            server.close()
        if row.user != (caller.user or caller.server_user):
            raise Gone(f"you hold no lease {lease[:40]!r} there", hint="leases shows whose it is")

    def work(self, tool: str, arguments: Mapping[str, Any]) -> Callable[[], int] | None:
        """Returns what a tool does instead of its command; None where the command has --url."""
        acts = {"submit": self.submit, "reserve": self.reserve}
        return (lambda: guarded(lambda: acts[tool](arguments))) if tool in acts else None

    def submit(self, arguments: Mapping[str, Any]) -> int:
        """Queues a job of whoever runs the server, as a job file."""
        return self._post(
            "/api/jobs", {_KEYS.get(name, name): one for name, one in arguments.items()}
        )

    def reserve(self, arguments: Mapping[str, Any]) -> int:
        """Reserves devices, at this machine's time."""
        given = {name: one for name, one in arguments.items() if name not in ("begin", "length")}
        body = {_FIELDS.get(name, name): one for name, one in given.items()}
        if "models" in body:
            body["models"] = [body["models"]]
        try:
            body["begins"] = exact_moment(arguments["begin"])
            body["seconds"] = parse_seconds(arguments["length"])
        except (ValueError, click.ClickException) as wrong:
            text = wrong.message if isinstance(wrong, click.ClickException) else str(wrong)
            raise Invalid(f"reserve: {text}") from wrong
        return self._post("/api/reservations", body)

    def _post(self, path: str, body: Json) -> int:
        server = self._server()
        try:
            answer = server.post(path, body)
        finally:
            server.close()
        Terminal.of(Choices()).show_json(answer)
        return 0

    def _server(self) -> RestServer:
        return connect(self._url, self._token_file, lambda _: None).as_user()
