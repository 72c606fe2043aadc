"""The parts through which a server is reached: its port, its keys, its audit log."""

import logging
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from andon.access.gate import is_loopback
from andon.app.servers.node import sole_server
from andon.errors import Unavailable
from andon.host.service_manager import ServiceManager
from andon.host.state.user_folder import state_folder
from andon.settings.resolution import Settings
from andon.web.listening import Listening, ServeOptions, bound, given, url_of
from andon.web.transport import logs
from andon.web.transport.audit import Audit
from andon.web.transport.calendar_keys import CalendarKeys
from andon.web.transport.keys import Keys, make_token
from andon.web.transport.local_sockets import SignInSocket, local_socket
from andon.web.transport.session_file import SessionFile

log = logging.getLogger("andon.serve")


def bounded_logs() -> Iterator[None]:
    with logs.bounded():
        yield


def listening(place: ServeOptions, service: ServiceManager) -> Iterator[Listening]:
    """The socket of the service manager comes before the port of the options."""
    opened = given(service.sockets[0]) if service.sockets else bound(place.host, place.port)
    with opened as socket:
        address, port = socket.getsockname()[:2]
        yield Listening(socket, address, port, url_of(place, address, port), is_loopback(address))


def keys(folder: Path, demo_user: str | None = None) -> Iterator[Keys]:
    """The token, which is made at the first start, and what people get for it."""
    token = make_token(state_folder())
    sessions = SessionFile(folder, token)
    yield Keys(token, file=sessions, demo_user=demo_user, calendars=CalendarKeys(folder))
    sessions.close()


def audit(folder: Path, listening: Listening) -> Iterator[Audit]:
    made = Audit(folder)
    audit_started(made, listening.address, listening.port)
    yield made


def audit_started(audit: Audit, address: str, port: int) -> None:
    """Writes the start to the audit log; a server that cannot write it changes nothing."""
    try:
        audit.write("started", address=address, port=port)
    except Unavailable as exc:
        log.warning("%s; every change is refused until it can", exc.reason)


def linked(settings: Settings, listening: Listening) -> Iterator[Settings]:
    """The settings with the board's URL for messages, unless only this machine can open it."""
    url = settings.alerts_board_url or ("" if listening.loopback else listening.url)
    yield replace(settings, alerts_board_url=url)


def sign_in(settings: Settings, keys: Keys, listening: Listening) -> Iterator[str | None]:
    """The name of the socket at which this machine's users get their links."""
    with local_socket(
        lambda: SignInSocket(keys, listening.local_url, listening.port),
        "users cannot sign in as themselves",
        settings.server_sign_in,
    ) as name:
        yield name


DOOR = (bounded_logs, sole_server, listening, keys, audit, linked)
