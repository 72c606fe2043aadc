"""`andon top --url HUB`: every node in a line, live; enter opens one of them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.app import App, ComposeResult

from andon.cli.commands.fleet.nodes import render_nodes
from andon.cli.show.text import Text, styled
from andon.errors import AndonError
from andon.fleet.rules.states import NodeList, NodeRow, having, in_need
from andon.tui.canvas import Canvas
from andon.tui.page import plain_ascii, scrolled, selected
from andon.units import counted

EVERY_SECONDS = 2.0
KEYS = "enter opens a node · / filters · q quits"
_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": -(10**6),
          "end": 10**6}  # fmt: skip


class FleetView(Struct, frozen=True):
    """What the list shows, and what the user has chosen in it."""

    nodes: tuple[NodeRow, ...] = ()
    version: str | None = None
    cursor: str = ""
    search: str = ""
    typing: bool = False
    trouble: str | None = None
    """Why the list is not of now."""

    @property
    def shown(self) -> Sequence[NodeRow]:
        """The nodes that match the search, first those that need someone."""
        return in_need(having(self.nodes, self.search))

    @property
    def place(self) -> int:
        names = [row.name for row in self.shown]
        return names.index(self.cursor) if self.cursor in names else 0

    def moved(self, steps: int) -> "FleetView":
        rows = self.shown
        place = max(0, min(self.place + steps, len(rows) - 1))
        return replace(self, cursor=rows[place].name if rows else "")

    def typed(self, key: str, character: str | None) -> "FleetView":
        """Takes a key while a search is typed."""
        if key in ("enter", "escape"):
            return replace(self, typing=False, search="" if key == "escape" else self.search)
        if key == "backspace":
            return replace(self, search=self.search[:-1])
        added = character if character is not None and character.isprintable() else ""
        return replace(self, search=(self.search + added)[:100])

    def lines(self, width: int, height: int) -> list[Text]:
        rows, room = self.shown, max(1, height - 3)
        first = scrolled(len(rows), room, self.place)
        head, *drawn = render_nodes(rows[first : first + room], width, self.version)
        if drawn:
            at = self.place - first
            drawn[at] = selected(drawn[at], width)
        drawn += [Text()] * (room - len(drawn))
        gpus = counted(sum(row.gpus for row in self.nodes), "GPU")
        title = styled(f"{counted(len(self.nodes), 'node')}, {gpus}", "bold")
        title += styled(f"   {self.trouble}", "red") if self.trouble else styled("")
        found = f"{len(rows)} with: {self.search}{'█' * self.typing}"
        foot = found if self.typing or self.search else KEYS
        return [title.fit(width), head, *drawn, styled(foot, "dim").fit(width)]


class FleetApp(App[str]):
    """The list of nodes; returns the name of the one to open, or None."""

    CSS = "Screen { background: ansi_default; color: ansi_default; }"
    ENABLE_COMMAND_PALETTE = False
    every_seconds = EVERY_SECONDS

    def __init__(
        self, read: Callable[[], NodeList], view: FleetView, color: bool, ascii_only: bool
    ) -> None:
        """`read` reads the hub's nodes, in a thread."""
        super().__init__(ansi_color=True)
        self._read, self.view, self._ascii = read, view, ascii_only
        self.canvas, self._over = Canvas(color), threading.Event()

    def compose(self) -> ComposeResult:
        yield self.canvas

    def on_mount(self) -> None:
        self.canvas.focus()
        self.draw()
        threading.Thread(target=self._follow, name="fleet", daemon=True).start()

    def on_unmount(self) -> None:
        self._over.set()

    def _follow(self) -> None:
        while not self._over.is_set():
            changes: Mapping[str, Any]
            try:
                found = self._read()
                changes = {"nodes": found.nodes, "version": found.version, "trouble": None}
            except AndonError as error:
                changes = {"trouble": error.reason}
            if self._loop is not None and not self._over.is_set():
                self._loop.call_soon_threadsafe(self._take, changes)
            self._over.wait(self.every_seconds)

    def _take(self, changes: Mapping[str, Any]) -> None:
        self.view = replace(self.view, **changes)
        self.draw()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        view, key = self.view, event.key
        if view.typing:
            self.view = view.typed(key, event.character)
        elif key in ("q", "ctrl+c"):
            self.exit()
        elif key == "enter" and view.shown:
            self.exit(view.shown[view.place].name)
        elif event.character == "/":
            self.view = replace(view, typing=True)
        elif key == "escape":
            self.view = replace(view, search="")
        elif key in _STEPS:
            self.view = view.moved(_STEPS[key])
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        lines = self.view.lines(self.size.width, self.size.height)
        self.canvas.show([plain_ascii(line) for line in lines] if self._ascii else lines)


def over_fleet(
    read: Callable[[], NodeList],
    open_node: Callable[[str], int],
    color: bool,
    ascii_only: bool,
) -> int:
    """Shows the list until the user quits; leaving an opened node returns to it."""
    view = FleetView()
    while True:
        app = FleetApp(read, view, color, ascii_only)
        name = app.run()
        if name is None:
            return app.return_code or 0
        view = replace(app.view, cursor=name)
        if code := open_node(name):
            return code
