"""Other users as nodes for a server of root, as their readers would tell them."""

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from andon.errors import AndonError
from andon.model.codec import to_json
from andon.model.job.facts import JobView
from andon.node.watched.users import UserNode, read_user


class Told:
    """A reader that answers by a table or a function of it; an error is raised."""

    def __init__(self, **answers: object) -> None:
        self.answers, self.asked = answers, list[tuple[str, dict[str, object]]]()

    def ask(self, what: str, **given: object) -> dict[str, Any]:
        self.asked.append((what, given))
        answer = self.answers[what]
        found = answer(**given) if callable(answer) else answer
        if isinstance(found, AndonError):
            raise found
        return cast("dict[str, Any]", found)


def jobs_told(*views: JobView, seen: str = "1") -> dict[str, object]:
    return {"seen": seen, "views": to_json(views), "paused": False}


class Users:
    """Those whose part can be looked at; `clock` is theirs."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, /, **readers: tuple[int, Told]
    ) -> None:
        self._nodes = {
            uid: read_user(name, told.ask, clock) for name, (uid, told) in readers.items()
        }

    def of(self, uid: int) -> UserNode | None:
        return self._nodes.get(uid)

    def known(self) -> Sequence[UserNode]:
        return list(self._nodes.values())

    def named(self, user: str) -> UserNode | None:
        return next((one for one in self._nodes.values() if one.user == user), None)
