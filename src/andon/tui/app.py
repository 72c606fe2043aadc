"""The Textual application of `andon top`: keys and mouse in, changed lines out."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from msgspec.structs import replace
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.timer import Timer

from andon.tui.canvas import Canvas
from andon.tui.driver import TopDriver
from andon.tui.ending import EndDialog, process_to_end
from andon.tui.histories import Histories
from andon.tui.keys import action_of
from andon.tui.page import Frame, Page
from andon.tui.reducers import (
    act,
    clicked,
    in_help,
    in_menu,
    noticed,
    settled,
    typed,
)
from andon.tui.scene import Scene, with_snapshot
from andon.tui.screen import compose
from andon.tui.sources.feed import Feed, Tick
from andon.tui.sources.side import BackgroundReader, ScreenNeeds
from andon.tui.state import Effect, EffectKind, Outcome, TopState, TopView
from andon.tui.views.overlays import help_lines

DOUBLE_CLICK_SECONDS = 0.5
CHECK_SECONDS = 0.25  # how soon the end of a signalled process is noticed


class TopApp(App[None]):
    """One canvas. Every key goes through the table of keys, none through Textual's own."""

    CSS = "Screen { background: ansi_default; color: ansi_default; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [Binding("ctrl+q", "ignore", show=False)]

    def __init__(
        self,
        feed: Feed,
        background: Callable[["TopApp", ScreenNeeds], BackgroundReader],
        state: TopState,
        scene: Scene,
        histories: Histories,
        *,
        color: bool = True,
        ascii_only: bool = False,
        grace_seconds: float = 10.0,
    ) -> None:
        super().__init__(driver_class=TopDriver, ansi_color=True)
        self._feed = feed
        self._needs = ScreenNeeds()
        self._background = background(self, self._needs)
        self.state, self.scene, self.histories = state, scene, histories
        self._latest = scene  # newer than what is shown while the picture is frozen
        self._color, self._ascii, self._grace = color, ascii_only, grace_seconds
        self.canvas = Canvas(color)
        self.dialog: EndDialog | None = None
        self._checking: Timer | None = None
        self.drawn = Page(0)
        self._clicked: tuple[float, object] = (0.0, None)
        self.failure: BaseException | None = None

    def compose(self) -> ComposeResult:
        yield self.canvas

    def on_mount(self) -> None:
        self.canvas.focus()
        self._want()
        self._background.start()
        self._feed.attach(lambda tick: self._from_thread(self.take, tick))
        self.app_resume_signal.subscribe(self, lambda _app: self._drawn_again())

    def apply_changes(self, changes: Mapping[str, Any], at_once: bool) -> None:
        """Takes what the background reader has read."""
        self._from_thread(self.learn, changes, at_once)

    def _from_thread(self, call: Callable[..., None], *values: Any) -> None:
        if self._loop is not None and self.is_running:
            self._loop.call_soon_threadsafe(self._guarded, call, *values)

    def _guarded(self, call: Callable[..., None], *values: Any) -> None:
        """Runs a call and reports its error, which a callback of the loop would print into the
        picture."""
        try:
            call(*values)
        except Exception as error:  # noqa: BLE001 - ends the app with one line
            self._handle_exception(error)

    # What comes in.

    def take(self, tick: Tick) -> None:
        """Takes a new snapshot, which is not shown while the picture is paused."""
        now = time.time()
        if tick.notice is not None:
            self.state = noticed(self.state, tick.notice, now, 15.0)
        if tick.snapshot is None or tick.lamps is None:
            self.draw()
            return
        self.histories.add(tick.snapshot)
        self._background.seen(tick.snapshot)
        self._latest = replace(
            with_snapshot(self._latest, tick.snapshot, self._feed.rulebook, tick.lamps),
            alerts=tick.alerts,
            source=tick.source,
            replay=tick.replay,
        )
        if not self.state.paused or self.state.replayed:
            self.scene = self._latest
            self.state = settled(self.state, self.scene, now)
            self._want()
            self.draw()

    def learn(self, changes: Mapping[str, Any], at_once: bool) -> None:
        """Takes data that is no snapshot."""
        given = dict(changes)
        for (uuid, metric), points in given.pop("past", {}).items():
            self.histories.add_past(uuid, metric, points)
        known = {name for name, value in given.items() if value is not None}
        notes = {key: text for key, text in self._latest.notes.items() if key not in known}
        given["notes"] = {**notes, **given.get("notes", {})}
        self._latest = replace(self._latest, **given)
        if not self.state.paused or self.state.replayed:
            self.scene = self._latest
            if at_once:
                self.draw()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        self.press(event.key, event.character)

    def press(self, key: str, character: str | None = None) -> None:
        """Handles one key: passes it to the open question, prompt, menu or help, else uses the
        table of keys."""
        frame, state = self.frame(), self.state
        if self.dialog is not None:
            self.dialog.press(key)
        elif state.prompt is not None:
            self._become(typed(frame, key, character))
        elif state.menu is not None:
            self.state = in_menu(frame, key)
        elif state.help and key not in ("ctrl+c", "ctrl+z"):
            self.state = in_help(state, key, len(help_lines(frame)))
        elif (action := action_of(state, key, character)) is not None:
            self._become(act(frame, action))
        elif state.copied is not None:
            self.state = replace(state, copied=None)
        self._want()
        self.draw()

    def on_paste(self, event: events.Paste) -> None:
        for character in event.text[:200] if self.state.prompt is not None else "":
            self.press(character, character)

    def on_click(self, event: events.Click) -> None:
        hit = self.drawn.hit(event.x, event.y)
        if hit is None or self.dialog is not None:
            return
        now = time.monotonic()
        twice = self._clicked[1] == hit and now - self._clicked[0] < DOUBLE_CLICK_SECONDS
        self._clicked = (now, hit)
        self._become(clicked(self.frame(), hit.kind, hit.value, twice))
        self._want()
        self.draw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.press("down")

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.press("up")

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.draw)

    # What goes out.

    def frame(self) -> Frame:
        size = self.size
        return Frame(
            self.scene, self.state, self.histories, size.width, size.height, self._ascii,
            time.time(),
        )  # fmt: skip

    def draw(self) -> None:
        question = () if self.dialog is None else self.dialog.lines(self.size.width)
        self.drawn = compose(self.frame(), question)
        self.canvas.show(self.drawn.lines)

    def _become(self, outcome: Outcome) -> None:
        self.state, effects = outcome
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:  # noqa: C901 - a line for each kind
        kind = effect.kind
        if kind is EffectKind.QUIT:
            self.exit()
        elif kind is EffectKind.COPY:
            self.copy_to_clipboard(effect.text)
        elif kind is EffectKind.INTERVAL:
            self._feed.pace(float(effect.text))
        elif kind is EffectKind.PAST:
            self.histories.forget_past()
            self._background.past.forget()
        elif kind is EffectKind.ENVIRONMENT and self.state.process is not None:
            self._needs.environment = self.state.process[0]
            self._background.wake("environment")
        elif kind is EffectKind.PAUSE:
            self._feed.pause(self.state.paused)
            self.scene = self._latest
        elif kind in (EffectKind.STEP, EffectKind.STEP_BACK):
            self._feed.step(1 if kind is EffectKind.STEP else -1)
        elif kind is EffectKind.REDRAW:
            self._drawn_again()
        elif kind is EffectKind.SUSPEND:
            self.action_suspend_process()
        elif kind is EffectKind.END:
            self._ask_to_end()

    def _drawn_again(self) -> None:
        """Redraws everything: another program may have written on the screen."""
        self.screen.refresh(repaint=True, layout=True)
        self.canvas.refresh()

    def _ask_to_end(self) -> None:
        found = process_to_end(self.frame())
        if isinstance(found, str):
            self.state = noticed(self.state, found, time.time(), 8.0)
        else:
            changed = partial(self._from_thread, self.draw)
            self.dialog = EndDialog(*found, self._close_dialog, changed, self._grace)
            self._checking = self.set_interval(CHECK_SECONDS, self._check_dialog)

    def _close_dialog(self, message: str) -> None:
        self.dialog = None
        if self._checking is not None:
            self._checking.stop()
        if message:
            self.state = noticed(self.state, message, time.time(), 8.0)

    def _check_dialog(self) -> None:
        if self.dialog is not None:
            self.dialog.poll()
            self.draw()

    def _want(self) -> None:
        """Passes the screen's needs to the background reader, which reads new ones at once."""
        state, needs = self.state, self._needs
        before = (needs.view, needs.device, needs.tree, needs.span_seconds)
        needs.view, needs.device, needs.tree = state.view, state.device, state.processes.tree
        needs.span_seconds = state.span_seconds
        if before != (needs.view, needs.device, needs.tree, needs.span_seconds):
            again = {TopView.DEVICE: "why", TopView.RUNS: "runs", TopView.JOBS: "jobs"}.get(
                state.view
            )
            self._background.wake(*([again] if again else []), *(["tree"] if needs.tree else []))

    def stop_soon(self) -> None:
        """Ends the app; may be called from a signal handler or another thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.exit)

    def action_ignore(self) -> None:
        """Does nothing: Textual uses Ctrl-Q to quit, top uses q."""

    def _handle_exception(self, error: Exception) -> None:
        """Prints one line after restoring the terminal, instead of Textual's page of code."""
        if self.failure is None:
            self.failure = error
        self._exception = error
        self.exit(return_code=1)
