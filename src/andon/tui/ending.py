"""The question about ending a process, and what became of it."""

from collections.abc import Callable

from andon.cli.show.text import Text
from andon.tui.page import Frame


class EndDialog:
    """Opened by k; to be built on the other branch's functions."""

    @classmethod
    def about(cls, frame: Frame, close: Callable[[str], None]) -> "EndDialog | str":
        return "ending processes is not there yet"

    def lines(self, width: int) -> tuple[Text, ...]:
        return ()

    def press(self, key: str) -> None: ...

    def look(self) -> None: ...
