"""Sends one request to this machine's trusted server: this user's own, else the system's.

Any user may listen on a port: the user's own server must prove that it knows the token, and the
system's is used only if this user or a system account listens (`calls`).
"""

from collections.abc import Iterator

from andon.errors import AndonError
from andon.host.state import server_file
from andon.host.state.user_folder import node_path, own_token, state_folder
from andon.node.calls import Answer, CallLimits, SentRequest, Target, Token, Trust, call
from andon.node.connection import FAILURES
from andon.node.sign_in import open_session
from andon.node.usual_server import usual_port


def ask_trusted(
    path: str, limits: CallLimits, port: int | None = None, signs_in: bool = False
) -> Iterator[Answer]:
    """Yields the answers, own server first; none if no server answers in time.

    `signs_in`: signs in as this user if the system's server answers only known users.
    """
    asked = SentRequest("GET", path)
    for target in _targets(usual_port() if port is None else port):
        try:
            answer = call(target, asked, limits)
            if answer.status == 401 and signs_in and target.trust is Trust.SERVICE:
                session = open_session(target.url, limits)
                answer = session.call(asked, limits)
                session.end(limits)
        except (AndonError, *FAILURES):
            continue
        if answer.status == 200:
            yield answer


def _targets(port: int) -> Iterator[Target]:
    """Returns the servers to ask: this user's own; else the system's, without our token."""
    own, token = server_file.find(node_path()), _token()
    if own is not None and token is not None:
        yield Target(own, Trust.PROVEN, Token(token))
    if (usual := f"http://127.0.0.1:{port}") != own:  # one that hangs is not waited for twice
        yield Target(usual, Trust.SERVICE)


def _token() -> str | None:
    """Returns the token of this user's own server; without it that server cannot be verified, and
    is not asked."""
    try:
        return own_token(state_folder())
    except AndonError:
        return None
