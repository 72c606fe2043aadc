"""The lines around every view: the first line, alerts, leases and keys."""

import time
from functools import lru_cache
from typing import NamedTuple

from andon.alerts.rules import listing
from andon.cli.show.entries import unreal
from andon.cli.show.render import node_row
from andon.cli.show.text import Text, join, styled
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.naming import range_of
from andon.model.verdict import VerdictKind
from andon.tui.keys import KeyBinding, bindings_for, key_name
from andon.tui.page import Frame, Hit, Page
from andon.tui.scene import Scene
from andon.tui.state import PromptKind, TopView
from andon.units import counted, human_seconds

_STYLES = {"critical": "bold red", "warning": "yellow"}
LEAST_NAME = 12


def header(frame: Frame) -> Text:
    """Returns node, driver and headline on the left; source, mark and time on the right."""
    scene, width = frame.scene, frame.width
    snapshot = scene.snapshot
    if snapshot is None:
        return styled("andon top", "bold") + styled("  reading the devices…", "dim")
    driver = snapshot.versions.get("driver")
    left = [styled(snapshot.node, "bold")] + ([styled(f"driver {driver}", "dim")] if driver else [])
    if scene.lamps is not None:
        left.append(styled(scene.lamps.headline))
    right = join(list(_right(frame)), "  ")
    room = max(LEAST_NAME, width - right.width - 2)
    text = join(left, " · ").fit(room)
    return (text + styled(" " * max(2, width - text.width - right.width)) + right).fit(width)


def _right(frame: Frame) -> list[Text]:
    scene, state = frame.scene, frame.state
    assert scene.snapshot is not None
    mark = unreal(scene.snapshot)
    parts = [styled(f" {mark} ", "bold reverse")] if mark else []
    if state.paused:
        parts.append(styled(" PAUSED ", "reverse yellow"))
    if scene.replay:
        parts.append(styled(scene.replay, "dim"))
    if scene.source and frame.width >= 100:
        parts.append(styled(scene.source, "dim"))
    if frame.width >= 60 and not state.replayed:
        every = state.interval_seconds
        parts.append(styled(f"every {every:g} s", "dim"))
    parts.append(styled(time.strftime("%H:%M:%S", time.localtime(scene.at)), "dim"))
    return parts


def node_line(frame: Frame) -> Text:
    snapshot = frame.scene.snapshot
    if snapshot is None:
        return Text()
    text = join(node_row(snapshot, frame.width), " · ")
    for fault in snapshot.faults:
        text = text + styled(" · ", "dim") + styled(f"{fault.source}: {fault.reason}", "yellow")
    return text.fit(frame.width)


def alerts_line(frame: Frame) -> Text:
    """Returns how many alerts there are, and the worst in a sentence."""
    entries = listing.entries(frame.scene.alerts)
    counts = listing.counts(entries)
    levels = listing.level_counts(counts)
    if not levels:
        message = "; ".join(["no active alerts", *listing.other_counts(counts._replace(info=0))])
        text = styled(frame.scene.notes.get("alerts", message), "dim")
        return (styled("alerts  ", "dim") + text).fit(frame.width)
    styles = [next((s for k, s in _STYLES.items() if k in word), "") for word in levels]
    parts = [styled(word, style) for word, style in zip(levels, styles, strict=True)]
    text = styled("alerts  ", "dim") + join(parts, ", ")
    return (text + styled(" · ", "dim") + styled(entries[0].alert.message)).fit(frame.width)


def leases_line(frame: Frame) -> Text:
    """Returns who holds what, who waits, and what is free."""
    found = frame.scene.leases
    if found is None:
        note = frame.scene.notes.get("leases", "not read yet")
        return (styled("leases  ", "dim") + styled(note, "dim")).fit(frame.width)
    labels = {one.uuid: one.label for one in found.devices}
    parts = [_held(found.leases, labels)]
    if found.waiting:
        parts.append(_waiting(found))
    parts.append(_free(frame.scene))
    return (styled("leases  ", "dim") + join(parts, " · ")).fit(frame.width)


def _held(rows: tuple[LeaseRow, ...], labels: dict[str, str]) -> Text:
    if not rows:
        return styled("none held", "dim")
    named = [
        f"{row.user} GPU {range_of([labels.get(s.uuid) or str(s.index) for s in row.devices])}"
        for row in rows
    ]
    return styled(f"{len(rows)} held ") + styled(f"({'; '.join(named)})", "dim")


def _waiting(found: LeaseList) -> Text:
    first = found.waiting[0]
    waited = human_seconds(max(0.0, found.at - first.since))
    many = counted(first.gpus, "GPU")
    return styled(f"{len(found.waiting)} waiting ", "yellow") + styled(
        f"({first.user}, {many}, {waited})", "dim"
    )


def _free(scene: Scene) -> Text:
    verdicts = scene.verdicts
    free = [
        e.label
        for e in scene.entries
        if (v := verdicts.get(e.status.device.uuid)) and v.kind is VerdictKind.FREE
    ]
    if not free:
        return styled("free: ", "dim") + styled("none")
    return styled("free: ", "dim") + styled(f"GPU {range_of(free)}", "bold green")


def tabs(page: Page, frame: Frame) -> None:
    """Draws the views by their keys; the current one is highlighted."""
    _add_marked(page, _tabs(bindings_for(frame.state), frame.state.view, frame.width))


@lru_cache(maxsize=64)
def _tabs(bindings: tuple[KeyBinding, ...], shown: TopView, width: int) -> "MarkedLine":
    text, marks = Text(), []
    for binding in bindings:
        view = binding.view
        if view is None:
            continue
        name = f" {key_name(binding.keys[0])} {view} "
        marks.append((text.width, text.width + len(name), Hit("action", binding.action)))
        text = text + styled(name, "reverse" if view is shown else "dim")
    return MarkedLine(text.fit(width), tuple(marks))


class MarkedLine(NamedTuple):
    """A line that is the same in every picture, with its click targets."""

    text: Text
    marks: tuple[tuple[int, int, Hit], ...]


def _add_marked(page: Page, line: MarkedLine) -> None:
    for start, end, hit in line.marks:
        page.mark(start, end, hit)
    page.add(line.text)


def bottom_line(page: Page, frame: Frame) -> None:
    """Draws the text being typed, a notice, or the keys that matter here."""
    state, width = frame.state, frame.width
    if state.prompt is not None:
        label = "filter: " if state.prompt.kind is PromptKind.FILTER else "user: "
        text = styled(label, "bold") + styled(state.prompt.text) + styled(" ", "reverse")
        page.add((text + styled("  Enter keeps it, Esc does not", "dim")).fit(width))
    elif state.copied is not None:
        page.add((styled("copied: ", "bold") + styled(state.copied)).fit(width))
    elif state.notice is not None and state.notice.until > frame.now:
        page.add(styled(state.notice.text, state.notice.style or "yellow").fit(width))
    else:
        _add_marked(page, _keys(bindings_for(state), width))


@lru_cache(maxsize=64)
def _keys(bindings: tuple[KeyBinding, ...], width: int) -> MarkedLine:
    text, marks = Text(), []
    for binding in bindings:
        if not binding.short or binding.view is not None:
            continue
        item = _item(binding)
        if text.width + item.width + 1 > width:
            break
        marks.append((text.width, text.width + item.width, Hit("action", binding.action)))
        text = text + item + styled(" ")
    return MarkedLine(text, tuple(marks))


def _item(binding: KeyBinding) -> Text:
    return styled(key_name(binding.keys[0]), "reverse") + styled(f" {binding.short}")


def filter_text(frame: Frame) -> str:
    """Returns the active filters of the processes table, for its heading."""
    choice = frame.state.processes
    entry = frame.scene.entry(choice.device)
    parts = [
        f"“{choice.text}”" if choice.text else "",
        f"of {choice.user}" if choice.user else "",
        "mine" if choice.mine else "",
        "compute only" if choice.compute_only else "",
        f"on GPU {entry.label}" if entry is not None else "",
    ]
    return ", ".join(word for word in parts if word)
