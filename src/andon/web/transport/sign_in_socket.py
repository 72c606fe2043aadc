"""The local socket at which this machine's users get a one-time code as themselves."""

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager

from andon.access.roles import identity_of
from andon.access.sign_in import SignInAnswer, dump_answer, socket_name
from andon.failures.log import FailureLog
from andon.host.processes.kin import account_name
from andon.web.transport.keys import Keys
from andon.web.transport.local_socket import PAUSE_SECONDS, LocalSocket, local_socket


class SignInSocket(LocalSocket):
    """Gives out codes."""

    def __init__(
        self,
        keys: Keys,
        url: str,
        port: int,
        name_of: Callable[[int], str | None] = account_name,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._keys, self._url, self._port, self._name_of = keys, url, port, name_of
        failures = FailureLog("andon.web", "a user could not be signed in")
        name = socket_name(port, secrets.token_hex(16))
        super().__init__(name, lambda uid: dump_answer(self._answer(uid)), failures, pause_seconds)

    def _answer(self, uid: int | None) -> SignInAnswer:
        user = None if uid is None else self._name_of(uid)
        if uid is None or user is None:
            shown = "an unknown user" if uid is None else f"uid {uid}"
            return self._refused(shown, f"{shown} has no account on this machine")
        who = identity_of(uid, user, self._keys.owner.uid or 0)
        return SignInAnswer(self._url, self._port, user, self._keys.new_code(who))

    def _refused(self, user: str, reason: str) -> SignInAnswer:
        hint = f"ask {self._keys.owner.user}, who runs this server"
        return SignInAnswer(self._url, self._port, user, reason=reason, hint=hint)


def local_sign_in(
    keys: Keys, url: str, port: int, wanted: bool
) -> AbstractContextManager[str | None]:
    """Opens the socket while the server runs; yields its name, or None if there is none."""
    lacking = "users cannot sign in as themselves"
    return local_socket(lambda: SignInSocket(keys, url, port), lacking, wanted)
