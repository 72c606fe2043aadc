"""The files of other users for a server of root, as their readers would tell them."""

from collections.abc import Sequence
from typing import Any, cast

from andon.errors import AndonError
from andon.model.job.facts import JobView, view_to_json
from andon.node.watched.users import UserFiles


class Told:
    """A reader that answers by a table; an error is raised."""

    def __init__(self, **answers: object) -> None:
        self.answers, self.asked = answers, list[tuple[str, dict[str, object]]]()

    def ask(self, what: str, **given: object) -> dict[str, Any]:
        self.asked.append((what, given))
        found = self.answers[what]
        if isinstance(found, AndonError):
            raise found
        return cast("dict[str, Any]", found)


def jobs_told(*views: JobView, seen: str = "1") -> dict[str, object]:
    return {"seen": seen, "views": [view_to_json(one) for one in views], "paused": False}


class Users:
    """Those whose files can be looked at."""

    def __init__(self, **readers: tuple[int, Told]) -> None:
        self._files = {uid: UserFiles(name, told) for name, (uid, told) in readers.items()}

    def of(self, uid: int) -> UserFiles | None:
        return self._files.get(uid)

    def known(self) -> Sequence[UserFiles]:
        return list(self._files.values())

    def named(self, user: str) -> UserFiles | None:
        return next((one for one in self._files.values() if one.user == user), None)
