"""Starts top: draws the first picture at once, then runs Textual, then restores the terminal."""

import gc
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.cli.sources import node_of, rulebook_of, settings_of
from andon.cli.terminal import Choices, notice
from andon.model.naming import chosen_uuids, only
from andon.settings.resolution import Settings
from andon.tui.histories import Histories
from andon.tui.remembered import remember, without_options
from andon.tui.sources.feed import Feed, Tick
from andon.tui.sources.past import HistoryOnDisk
from andon.tui.state import TopState

if TYPE_CHECKING:
    from andon.node.port import Node
    from andon.tui.app import TopApp
    from andon.tui.scene import Scene
    from andon.tui.terminal import TerminalGuard

PAST_SECONDS = 0.3  # a disk may hang
FIRST_SECONDS = 0.4  # a driver may hang: then the screen shows that, and keys work


def run(
    choices: Choices,
    state: TopState,
    saved: TopState,
    devices: list[str],
    color: bool,
    ascii_only: bool,
) -> int:
    """Runs top until the user quits. `saved` is the remembered state, without options."""
    node, settings = node_of(choices), settings_of(choices)
    feed = Feed(node, rulebook_of(choices), state.interval_seconds)
    feed.start()
    early = HistoryOnDisk(node, settings.history_store, feed, state.span_seconds)
    # Imported while the reader opens the driver.
    from andon.tui.page import Frame
    from andon.tui.reducers import settled
    from andon.tui.scene import Scene, with_snapshot
    from andon.tui.screen import compose
    from andon.tui.terminal import TerminalGuard

    first = _first(feed, devices)
    scene = Scene(source=feed.source)
    histories = Histories()
    guard = TerminalGuard()
    try:
        guard.enter()
        if first is not None and first.snapshot is not None and first.lamps is not None:
            scene = replace(
                with_snapshot(scene, first.snapshot, feed.rulebook, first.lamps),
                alerts=first.alerts,
            )
            for snapshot in (*feed.remembered, first.snapshot):
                histories.add(snapshot)
            for (uuid, metric), points in early.points(PAST_SECONDS).items():
                histories.add_past(uuid, metric, points)
        columns, rows = os.get_terminal_size()
        state = settled(state, scene, time.time())
        frame = Frame(scene, state, histories, columns, rows, ascii_only, time.time())
        guard.paint(compose(frame).lines, color)
        app = _run_app(node, settings, feed, guard, state, scene, histories, color, ascii_only)
        remember(without_options(app.state, state, saved))
        return _reported(guard.failure or app.failure)
    finally:
        feed.close()
        guard.close()


def _first(feed: Feed, devices: list[str]) -> Tick | None:
    """Returns the first tick; a wrong device is reported before the screen changes."""
    if not devices:
        return feed.first(FIRST_SECONDS)
    first = feed.first(10.0)
    if first is None or first.snapshot is None:
        feed.names = devices
        return None
    feed.devices = chosen_uuids(first.snapshot, devices)
    return replace(first, snapshot=only(first.snapshot, feed.devices))


def _run_app(
    node: "Node",
    settings: Settings,
    feed: Feed,
    guard: "TerminalGuard",
    state: TopState,
    scene: "Scene",
    histories: Histories,
    color: bool,
    ascii_only: bool,
) -> "TopApp":
    from andon.host.users import user_name
    from andon.tui.app import TopApp
    from andon.tui.sources.side import BackgroundReader

    root = Path(settings.root)
    app = TopApp(
        feed,
        lambda app, needs: BackgroundReader(node, root, feed, needs, app.apply_changes),
        state,
        replace(scene, me=user_name(os.geteuid())),
        histories,
        color=color,
        ascii_only=ascii_only,
        grace_seconds=settings.work_grace_seconds,
    )
    guard.stops_by(app.stop_soon)
    gc.freeze()  # modules are no garbage: no collection need look at them again
    app.run()
    guard.leave()
    return app


def _reported(failure: BaseException | None) -> int:
    if failure is None:
        return 0
    from andon.tui.terminal import failure_text

    notice(failure_text(failure))
    return 1
