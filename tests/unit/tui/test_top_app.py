"""The app of top under Textual's pilot: keys, mouse and samples, and what is painted again."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.strip import Strip

from andon.explain.conditions.rulebook import Rulebook
from andon.tui.app import TopApp
from andon.tui.histories import Histories
from andon.tui.keys import KEYS
from andon.tui.scene import Scene
from andon.tui.sources.feed import Tick
from andon.tui.state import Focus, TopState, TopView
from tests.support.snapshots import office
from tests.support.top_scenes import leases_of, tick_of

pytestmark = pytest.mark.slow
SIZE = (120, 40)


class StillFeed:
    """Has no snapshots of its own: the test gives them to the app."""

    def __init__(self) -> None:
        self.rulebook, self.asked = Rulebook(), list[object]()

    def attach(self, tell: Callable[[Tick], None]) -> None: ...

    def pace(self, interval_seconds: float) -> None:
        self.asked.append(interval_seconds)

    def pause(self, paused: bool) -> None:
        self.asked.append(paused)

    def step(self, by: int) -> None:
        self.asked.append(by)


class StillSide:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.past = self

    def start(self) -> None: ...

    def forget(self) -> None: ...

    def seen(self, snapshot: object) -> None: ...

    def wake(self, *again: str) -> None:
        self.asked += again


def made(state: TopState | None = None) -> TopApp:
    return TopApp(
        StillFeed(),  # type: ignore[arg-type]
        lambda app, wanted: StillSide(),  # type: ignore[arg-type,return-value]
        state or TopState(),
        Scene(me="alice"),
        Histories(),
    )


def played(
    test: Callable[[TopApp, Pilot[None]], Awaitable[None]], state: TopState | None = None
) -> None:
    """Run the app without a terminal, with one snapshot and its leases."""

    async def run() -> None:
        app = made(state)
        async with app.run_test(size=SIZE) as pilot:
            app.take(tick_of(office()))
            app.learn({"leases": leases_of(office())}, True)
            await pilot.pause()
            await test(app, pilot)

    asyncio.run(run())


def shown(app: TopApp) -> str:
    return "\n".join(strip.text for strip in painted(app))


def painted(app: TopApp) -> list[Strip]:
    """What Textual is given to paint: the same strip as before for a line that is unchanged."""
    return app.canvas.render_lines(app.canvas.region)


PRESSED = {"slash": "slash", "plus": "plus", "<": "less_than_sign", ">": "greater_than_sign"}


def test_every_key_of_the_table_is_answered() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        calm = TopState(device=app.state.device, process=app.state.process, focus=Focus.PROCESSES)
        wrong = []
        for binding in KEYS:
            if binding.action in ("quit", "suspend", "end", "redraw"):
                continue
            view = TopView.PROCESS if binding.action == "environment" else TopView.DEVICES
            for key in binding.keys:
                app.state = replace(calm, view=view, replayed=True, back=(view,))
                app.state = replace(app.state, process=app.state.process, place=2)
                if binding.action in ("up", "pageup", "home"):
                    await pilot.press("end")
                before = app.state
                await pilot.press(PRESSED.get(key, key))
                if app.state == before:
                    wrong.append((key, binding.action))
        assert not wrong

    played(test)


def test_each_view_is_shown_by_its_key() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        signs = {"2": "COMMAND", "3": "what to do", "4": "queue 1: dora", "6": "not read yet",
                 "7": "HELD BUT IDLE", "1": "utilisation"}  # fmt: skip
        missing = []
        for key, sign in signs.items():
            await pilot.press(key)
            if sign not in shown(app):
                missing.append(key)
        assert not missing
        await pilot.press("home", "enter")
        assert "lease   held by alice" in shown(app)
        await pilot.press("escape", "tab", "enter")
        assert "GPU memory" in shown(app)
        await pilot.press("question_mark")
        assert "end this process: asks first" in shown(app)
        await pilot.press("x")
        assert "end this process" not in shown(app)

    played(test)


def test_a_click_selects_sorts_and_opens() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        lines = shown(app).splitlines()
        y = next(i for i, line in enumerate(lines) if line.startswith("▲ 2"))
        await pilot.click(offset=(10, y))
        assert app.state.device == office().devices[2].device.uuid
        await pilot.click(offset=(10, y))
        assert app.state.view is TopView.DEVICE
        await pilot.press("escape")
        y = next(i for i, line in enumerate(lines) if "GPU MEM" in line)
        await pilot.click(offset=(lines[y].index("PID"), y))
        assert app.state.processes.sort == "pid"
        await pilot.click(offset=(lines[1].index("users"), 1))
        assert "HELD BUT IDLE" in shown(app)

    played(test)


def test_only_lines_that_changed_are_painted() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        before = painted(app)
        app.take(tick_of(replace(office(), at=office().at + 1)))
        await pilot.pause(0.1)
        changed = sum(new is not old for old, new in zip(before, painted(app), strict=True))
        assert 0 < changed < SIZE[1] // 2, "the clock and the newest values, not the whole screen"

    played(test)


def test_a_paused_picture_stands_still_and_goes_on_with_the_latest() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("space")
        app.take(tick_of(replace(office(), at=office().at + 100)))
        assert app.scene.at == office().at
        assert "PAUSED" in shown(app)
        await pilot.press("space")
        assert app.scene.at == office().at + 100

    played(test)


def test_what_is_copied_is_also_shown() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("y")
        uuid = office().devices[3].device.uuid  # the lost one, which is selected
        assert app.clipboard == uuid
        assert f"copied: {uuid}" in shown(app), "a terminal may refuse"
        await pilot.press("down")
        assert "copied" not in shown(app)

    played(test)


def test_a_window_of_another_size_gets_another_picture() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(80, 24)
        await pilot.pause(0.1)
        assert len(painted(app)) == 24
        await pilot.resize_terminal(300, 70)
        await pilot.pause(0.1)
        assert len(painted(app)) == 70

    played(test)


def test_a_process_that_is_not_of_this_machine_is_not_asked_about() -> None:
    async def test(app: TopApp, pilot: Pilot[None]) -> None:
        simulated = replace(
            office(), devices=tuple(
                replace(s, device=replace(s.device, vendor="sim")) for s in office().devices
            ),
        )  # fmt: skip
        app.take(tick_of(simulated))
        await pilot.press("k")
        assert app.dialog is None
        assert "simulated and recorded processes cannot be ended" in shown(app)

    played(test, TopState(focus=Focus.PROCESSES))


def test_an_error_ends_the_app_with_one_line() -> None:
    async def run() -> None:
        app = made()
        async with app.run_test(size=SIZE) as pilot:
            app._guarded(list[int]().remove, 0)
            await pilot.pause()
        assert isinstance(app.failure, ValueError)

    with pytest.raises(ValueError):
        asyncio.run(run())
