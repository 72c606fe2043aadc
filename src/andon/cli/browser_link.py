"""How `andon open` gets a one-time link: with the token, or as a user of this machine."""

from collections.abc import Set

from msgspec import Struct

from andon.errors import AndonError, Denied, Unavailable
from andon.host.state import server_file
from andon.host.state.user_folder import node_path
from andon.host.users import user_name
from andon.node.calls import Target, Token, Trust, names_of, users_at
from andon.node.connection import FAILURES, plain_message
from andon.node.rest import Notify
from andon.node.server import (
    LIMITS,
    PASS_TOKEN,
    Server,
    base_url,
    reach_hint,
    token_for,
    warn_of_clear_text,
)
from andon.node.sign_in import (
    NoLocalSignIn,
    is_trusted_user,
    other_servers,
    request_code,
)
from andon.node.usual_server import usual_url
from andon.units import sh

PROBE_SECONDS = 1.0
NO_SERVER = "no andon server is running here"
START = "start one: andon serve; or use one on another machine: andon open --url URL"


class SignInLink(Struct, frozen=True):
    """The address, the code, and as which user on whose server, if known."""

    url: str
    code: object
    user: str | None = None
    server_user: str | None = None


def sign_in_link(url: str | None, token_file: str | None, notify: Notify) -> SignInLink:
    """A link for this user. A server found by this user's own file must prove that it is theirs."""
    place, own = _place(url)
    token, no_token = token_for(place, token_file)
    if token is not None:
        try:
            return _with_token(place, token, notify)
        except Denied:
            if own or not token.own:
                raise
    elif own:
        raise no_token or Unavailable(NO_SERVER, hint=START)
    return _as_user(place, no_token)


def revoke(url: str | None, token_file: str | None, everyone: bool) -> int:
    """Ends this user's sessions, or everyone's; returns how many there were."""
    place, own = _place(url)
    token, _ = token_for(place, token_file)
    path = "/api/sessions?everyone=true" if everyone else "/api/sessions"
    named = Trust.PROVEN if own or (token is not None and not token.own) else Trust.NAMED
    server = Server(Target(place, named, token), signs_in=not own)
    ended = server.delete(path).get("ended")
    return ended if isinstance(ended, int) else 0


def _place(url: str | None) -> tuple[str, bool]:
    """Returns the server to sign in to, and whether this user's own file named it."""
    if url is not None:
        return base_url(url), False
    found = server_file.find(node_path())
    if found is not None:
        return found, True
    usual = usual_url()
    users = users_at(usual, PROBE_SECONDS)
    if users is None:
        hints = filter(None, (server_file.stale(node_path()), _other_servers_hint()))
        raise Unavailable(NO_SERVER, hint="; ".join(hints) or START)
    for uid in users:
        if not is_trusted_user(uid):
            raise Denied(
                f"the server at {usual} is run by {names_of(users)}, and you did not name it",
                hint=f"if you trust it: andon open --url {sh(usual)}",
            )
    return usual, False


def _other_servers_hint() -> str | None:
    """Returns a hint that names servers of this machine on other ports; they are not verified."""
    found = other_servers()
    if not found:
        return None
    listed = ", ".join(f"{user}'s: andon open --url {sh(url)}" for url, user in found)
    return f"there are others on this machine, {listed}"


def _with_token(place: str, token: Token, notify: Notify) -> SignInLink:
    warn_of_clear_text(place, token, notify)
    server = Server(Target(place, Trust.PROVEN, token))
    return SignInLink(place, server.post("/api/links").get("code"))


def _as_user(place: str, no_token: AndonError | None) -> SignInLink:
    try:
        found, uid = request_code(place, LIMITS)
    except NoLocalSignIn as exc:
        raise no_token or sign_in_refused(place, users_at(place, PROBE_SECONDS)) from exc
    except FAILURES as exc:
        raise Unavailable(
            f"{place} cannot be reached: {plain_message(exc)}",
            hint=_other_servers_hint() or reach_hint(exc),
        ) from exc
    return SignInLink(found.url, found.code, found.user, user_name(uid))


def sign_in_refused(place: str, users: Set[int] | None) -> AndonError:
    """Returns the error for a server of other users that cannot sign this user in; it says whom to
    ask."""
    if users:
        return Denied(
            f"you cannot sign in to {place} as yourself",
            hint=f"ask {names_of(users)}, who runs this server",
        )
    return Denied(
        f"signing in to {place} from this machine needs its token",
        hint=f"on that machine run: andon open --print; or {PASS_TOKEN}",
    )
