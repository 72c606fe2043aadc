"""The nodes of a hub in `andon top`: order, filter, keys, and a hub that is away."""

import asyncio

import pytest

from andon.errors import Unavailable
from andon.fleet.rules.states import NodeList, NodeRow, NodeState
from andon.tui.fleet import FleetApp, FleetView

ROWS = (
    NodeRow(
        "n17", NodeState.HEALTHY, 1.0, gpus=8, allocated=6, users=("alice",), models={"H200": 8}
    ),
    NodeRow("n18", NodeState.SILENT, 40.0, gpus=4, reason="silent 40 s", models={"A100": 4}),
    NodeRow("n19", NodeState.SICK, 2.0, gpus=4, reason="GPU 3: lost", models={"A100": 4}),
)
VIEW = FleetView(ROWS)


def shown(view: FleetView, width: int = 100, height: int = 8) -> list[str]:
    return [line.plain.rstrip() for line in view.lines(width, height)]


def test_those_that_need_someone_come_first() -> None:
    lines = shown(VIEW)
    assert lines[0] == "3 nodes, 16 GPUs"
    assert [line.split()[0] for line in lines[2:5]] == ["n19", "n18", "n17"]
    assert lines[-1] == "enter opens a node · / filters · q quits"
    assert len(lines) == 8


def test_the_cursor_stays_on_its_node_when_the_order_changes() -> None:
    view = VIEW.moved(2)
    assert (view.cursor, view.place) == ("n17", 2)
    sick = FleetView((NodeRow("n17", NodeState.SICK, 1.0, gpus=8), *ROWS[1:]), cursor=view.cursor)
    assert sick.place == 0
    assert view.moved(10).cursor == "n17"
    assert FleetView().moved(1).cursor == ""


@pytest.mark.parametrize(
    ("typed", "names"), [("a100", ["n19", "n18"]), ("alice", ["n17"]), ("nobody", [])]
)
def test_words_narrow_the_list(typed: str, names: list[str]) -> None:
    view = FleetView(ROWS, typing=True)
    for one in f"{typed}x":
        view = view.typed(one, one)
    view = view.typed("backspace", None).typed("enter", "\r")
    assert ([row.name for row in view.shown], view.typing) == (names, False)
    assert shown(view)[-1] == f"{len(names)} with: {typed}"
    assert FleetView(ROWS, search="x", typing=True).typed("escape", None).search == ""


def test_more_nodes_than_lines_are_scrolled_to_the_cursor() -> None:
    many = FleetView(tuple(NodeRow(f"n{n:03}", NodeState.HEALTHY, 1.0) for n in range(500)))
    assert shown(many.moved(400), height=10)[5].startswith("n400")


def test_enter_returns_the_node_and_a_hub_that_is_away_is_said() -> None:
    answers: list[NodeList | Unavailable] = [
        NodeList(0.0, True, ROWS, "1.0"),
        Unavailable("the hub cannot be reached"),
    ]

    def read() -> NodeList:
        found = answers.pop(0) if answers else Unavailable("the hub cannot be reached")
        if isinstance(found, Unavailable):
            raise found
        return found

    async def play() -> tuple[list[str], str | None]:
        app = FleetApp(read, FleetView(), color=False, ascii_only=False)
        app.every_seconds = 0.01
        async with app.run_test(size=(100, 8)) as pilot:
            for _ in range(500):
                if app.view.trouble is not None:
                    break
                await pilot.pause(0.01)
            lines = shown(app.view)
            await pilot.press("down", "enter")
        return lines, app.return_value

    lines, name = asyncio.run(play())
    assert lines[0].endswith("the hub cannot be reached")
    assert lines[2].startswith("n19"), "the last list stays"
    assert name == "n18"
