"""The named tokens of a hub: each has a role; every hub of the database knows them."""

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence

from andon.access.proxies import RANKED
from andon.access.roles import Identity, Role
from andon.access.server_proof import hint_of
from andon.errors import AndonError, Conflict, Gone, Invalid
from andon.fleet.rules.nodes import NamedToken
from andon.ports import NodePasts
from andon.web.fleet.hub import NAME


class NamedTokens:
    """The named tokens, as last read from the database; calls that change them block."""

    def __init__(self, pasts: Callable[[], NodePasts]) -> None:
        self._pasts = pasts
        self._known: dict[bytes, Identity] = {}
        self.is_read = False
        """Whether the last look at the database succeeded; else an unknown token may be good."""
        self.ended: Callable[[bytes], None] = lambda digest: None
        """Called with the hash of each token that was removed, here or at another hub."""

    def identify(self, digest: bytes) -> Identity | None:
        """Returns the holder of the token with this hash, who is no account of this machine."""
        return self._known.get(digest)

    def hashed(self, hint: str) -> bytes | None:
        """Returns the hash of the token that a hint names, if there is one."""
        return next((digest for digest in self._known if hint_of(digest) == hint), None)

    def refresh(self) -> Sequence[NamedToken]:
        """Reads them again, as other hubs change them, too."""
        try:
            found = self._pasts().tokens()
        except AndonError:
            self.is_read = False
            raise
        before = self._known
        self._known = {
            bytes.fromhex(one.hash): Identity(Role(one.role), user=f"token {one.name}")
            for one in found
            if one.role in RANKED
        }
        self.is_read = True
        for digest in before.keys() - self._known.keys():
            self.ended(digest)
        return found

    def add(self, name: str, role: str) -> str:
        """Adds a token; returns it, of which only a hash is kept."""
        if not NAME.fullmatch(name):
            raise Invalid(
                f"{name[:60]!r} cannot be a token's name", hint="letters, digits, - . and _"
            )
        if role not in RANKED:
            raise Invalid(f"{role[:60]!r} is not a role", hint=f"one of {', '.join(RANKED)}")
        secret = secrets.token_urlsafe(32)
        digest = hashlib.sha256(secret.encode()).hexdigest()
        if not self._pasts().add_token(NamedToken(name, digest, role, time.time())):
            hint = f"it ends with: andon token remove {name}"
            raise Conflict(f"there is a token {name} already", hint=hint)
        self.refresh()
        return secret

    def remove(self, name: str) -> None:
        """Ends a token, at other hubs within seconds."""
        if not self._pasts().remove_token(name):
            raise Gone(f"there is no token {name[:60]!r}", hint="list them: andon token")
        self.refresh()
