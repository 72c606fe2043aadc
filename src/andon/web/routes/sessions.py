"""REST for signing in: who the caller is, one-time codes, and sessions."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from andon.access import server_proof
from andon.access.gate import SESSION, ShownKey, is_loopback
from andon.access.roles import RIGHTS, Role
from andon.errors import Denied, Gone
from andon.model import wire
from andon.model.shapes import to_json
from andon.web.answers.problems import problem
from andon.web.answers.qr_codes import check_own, squares
from andon.web.answers.requests import RequestBody
from andon.web.answers.schemas import SessionState
from andon.web.routes.responses import sent_json
from andon.web.transport.auth import READS, add_notes, caller_of, shown_key
from andon.web.transport.keys import BRIEF_SECONDS, CODE_SECONDS, SESSION_SECONDS, Keys


class Code(RequestBody):
    """The one-time code of a sign-in link; a command asks for a brief session."""

    code: Annotated[str, Field(min_length=1, max_length=200)]
    brief: bool = False


class LinkRequest(RequestBody):
    """The address of this server for which the link is drawn as a QR code."""

    address: Annotated[str | None, Field(max_length=300)] = None


def session_routes(router: APIRouter, keys: Keys, sign_in: str | None) -> None:
    """Adds /api/proof, /api/links, /api/session and /api/sessions."""
    _proof(router, keys)
    _own_session(router, keys, sign_in)
    _links(router, keys)
    _ending(router, keys)


def _proof(router: APIRouter, keys: Keys) -> None:
    @router.get(server_proof.PATH, tags=["access"])
    async def proof(
        request: Request,
        nonce: Annotated[str, Query(pattern="^[0-9a-f]{64}$", max_length=64)],
        key: Annotated[str, Query(pattern="^([0-9a-f]{16})?$", max_length=16)] = "",
    ) -> Response:
        """Proof that this server knows the token: an HMAC over the nonce and its address."""
        address, port = request.scope.get("server") or ("", 0)
        place = server_proof.place_of(address, port or 0)
        statement = keys.prove(bytes.fromhex(nonce), place, key)
        return _fresh({"address": statement.place, "proof": statement.proof})


def _own_session(router: APIRouter, keys: Keys, sign_in: str | None) -> None:
    @router.get(SESSION, tags=["access"])
    async def session(request: Request) -> Response:
        """Who you are here, and what you may do; anyone may ask."""
        who, reads = caller_of(request.scope), bool(request.scope.get(READS))
        found = keys.session(shown_key(request.scope["headers"]) or "")
        return _fresh(
            to_json(
                SessionState(
                    role=str(who.role),
                    user=who.user,
                    uid=who.uid,
                    by_token=who.by_token,
                    reads=reads,
                    expires_in_seconds=None if found is None else round(found[1], 1),
                    may={str(action): str(far) for action, far in RIGHTS[who.role].items()},
                    server_user=keys.owner.user if reads else None,
                    sign_in=sign_in,
                )
            )
        )


def _links(router: APIRouter, keys: Keys) -> None:
    @router.post("/api/links", tags=["access"])
    async def new_link(request: Request, given: LinkRequest | None = None) -> Response:
        """A one-time code for a browser; only for the server's owner. In a session it makes
        another one that ends with it at the latest. With an address, also its QR code."""
        address = None if given is None else given.address
        if address is not None:
            check_own(request, f"{address}/")
        who, session = caller_of(request.scope), None
        if not who.by_token:
            session = keys.session(shown_key(request.scope["headers"]) or "")
            if session is None:
                raise Gone("your session has ended", hint="andon open")
        elif request.client is not None and is_loopback(request.client.host):
            who = keys.owner  # elsewhere anyone may have been given the token
        code = keys.new_code(who, session=None if session is None else session[0])
        qr = None if address is None else squares(f"{address}/#code={code}")
        return sent_json({"code": code, "expires_in_seconds": CODE_SECONDS, "qr": qr})

    @router.post(SESSION, tags=["access"])
    async def new_session(request: Request, given: Code) -> Response:
        """Exchange a one-time code for a session's secret."""
        who, secret = keys.code_owner(given.code), keys.exchange(given.code, given.brief)
        if secret is None:
            body = problem(
                401, "the link has expired or was already used", "for a new one: andon open"
            )
            return Response(body, 401, media_type="application/json")
        if who is not None:
            add_notes(request.scope, user=who.user, uid=who.uid)
        seconds = BRIEF_SECONDS if given.brief else SESSION_SECONDS
        return sent_json({"secret": secret, "expires_in_seconds": seconds})


def _ending(router: APIRouter, keys: Keys) -> None:
    @router.delete(SESSION, tags=["access"])
    async def end_session(request: Request) -> Response:
        """End the session whose secret is sent."""
        secret = shown_key(request.scope["headers"]) or ""
        if keys.grade(secret) is not ShownKey.SESSION or not keys.end_session(secret):
            raise Gone("no such session", hint="send a session's secret, not the token")
        return sent_json({"ended": True})

    @router.delete("/api/sessions", tags=["access"])
    async def revoke(request: Request, everyone: bool = False) -> Response:
        """End all your sessions; the server's owner and root can end everyone's."""
        who = caller_of(request.scope)
        if everyone and who.role is not Role.OWNER:
            raise Denied(
                f"{who.user} may not end the sessions of others",
                hint="only root and the user who runs this server may",
            )
        return sent_json({"ended": keys.revoke(None if everyone else who.uid)})


def _fresh(value: wire.Json) -> Response:
    answer = sent_json(value)
    answer.headers["cache-control"] = "no-store"
    return answer
