"""What each action does: from the state and the scene to a new state and effects."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from andon.tui.moving import back, choose, focus, move, nth, open_chosen, opened, with_cursor
from andon.tui.page import Frame
from andon.tui.scene import SORT_NAMES, Scene, process_entries
from andon.tui.state import (
    INTERVALS,
    SPANS,
    Effect,
    EffectKind,
    Focus,
    Outcome,
    ProcessKey,
    Prompt,
    PromptKind,
    ShownNotice,
    TopState,
    TopView,
)
from andon.tui.views.processes import COLUMN_NAMES
from andon.units import human_seconds

NOTICE_SECONDS = 4.0
PAGE = 10


def act(frame: Frame, action: str) -> Outcome:
    """Returns the state after an action; an action that has no effect here changes nothing."""
    state = replace(frame.state, copied=None, worst=None)
    frame = replace(frame, state=state)
    name, _, value = action.partition(":")
    if name == "view":
        return opened(state, TopView(value)), ()
    if name == "sort":
        return _sorted_by(state, value), ()
    return _ACTIONS[name](frame)


def typed(frame: Frame, key: str, character: str | None) -> Outcome:
    """Handles a key while text is typed at the bottom: a filter works from its first letter on."""
    state, prompt = frame.state, frame.state.prompt
    assert prompt is not None
    if key == "enter":
        return replace(state, prompt=None), ()
    if key == "escape":
        return _filtered(replace(state, prompt=None), prompt, prompt.before), ()
    if key in ("backspace", "ctrl+h"):
        text = prompt.text[:-1]
    elif key == "ctrl+u":
        text = ""
    elif character is not None and len(character) == 1 and character.isprintable():
        text = prompt.text + character
    else:
        return state, ()
    return _filtered(replace(state, prompt=replace(prompt, text=text)), prompt, text), ()


def _filtered(state: TopState, prompt: Prompt, text: str) -> TopState:
    if prompt.kind is PromptKind.FILTER:
        return choose(state, text=text)
    return choose(state, user=text or None, mine=False)


def in_menu(frame: Frame, key: str) -> TopState:
    """Handles a key while the menu of columns is open."""
    state = frame.state
    row = state.menu or 0
    if key in ("up", "down"):
        return replace(state, menu=(row + (1 if key == "down" else -1)) % len(COLUMN_NAMES))
    if key in ("space", "enter", "x"):
        name, hidden = COLUMN_NAMES[row], state.processes.hidden
        return choose(state, hidden=hidden ^ {name})
    return replace(state, menu=None)


def in_help(state: TopState, key: str, rows: int) -> TopState:
    """Handles a key while the help is open: it scrolls, and any other key closes it."""
    moves = {"up": -1, "down": 1, "pageup": -PAGE, "pagedown": PAGE, "space": PAGE}
    if key in moves:
        place = max(0, min(rows - 1, state.rows.get("help", 0) + moves[key]))
        return replace(state, rows={**state.rows, "help": place})
    return replace(state, help=False, rows={**state.rows, "help": 0})


def _worst(scene: Scene) -> str:
    """Returns the device in most trouble."""
    found = max(scene.entries, key=lambda one: 0 if one.lamp is None else one.lamp.lamp.rank)
    return found.status.device.uuid


def settled(state: TopState, scene: Scene, now: float) -> TopState:
    """Returns the state for a new snapshot: the device in most trouble is selected until a person
    chooses; if the row under the cursor is gone, its neighbour is selected; if a followed process
    has ended, a notice says so."""
    uuids = [entry.status.device.uuid for entry in scene.entries]
    open_choice = state.device not in uuids or state.device == state.worst
    if uuids and open_choice and state.view is not TopView.DEVICE:
        worst = _worst(scene)
        state = replace(state, device=worst, worst=worst)
    rows = process_entries(scene, state.processes)
    if state.view is not TopView.PROCESS:
        state = with_cursor(state, rows)
    if state.follow is not None and scene.snapshot is not None:
        pids = {(p.pid, p.started) for s in scene.snapshot.devices for p in s.processes}
        if state.follow[:2] not in pids:
            text = f"process {state.follow[0]}, which you follow, has ended or left the GPUs"
            state = noticed(replace(state, follow=None), text, now, 60.0)
    return state


def noticed(state: TopState, text: str, now: float, seconds: float = NOTICE_SECONDS) -> TopState:
    return replace(state, notice=ShownNotice(text, now + seconds))


def clicked(frame: Frame, kind: str, value: object, twice: bool) -> Outcome:
    """Handles a click: the first selects a row, the second opens it."""
    state = replace(frame.state, copied=None, worst=None)
    if kind == "action":
        return act(frame, str(value))
    if kind == "device":
        state = replace(state, device=str(value), focus=Focus.DEVICES)
    elif kind == "process" and isinstance(value, tuple):
        state = replace(state, process=value, focus=Focus.PROCESSES)
    elif kind == "row" and isinstance(value, int):
        state = replace(state, rows={**state.rows, state.view: value})
    elif kind == "column" and isinstance(value, int):
        return in_menu(replace(frame, state=replace(state, menu=value)), "space"), ()
    return open_chosen(replace(frame, state=state)) if twice else (state, ())


# Processes.


def _sorted_by(state: TopState, sort: str) -> TopState:
    """Sorts by a column; the same column again reverses the order."""
    same = state.processes.sort == sort
    return choose(state, sort=sort, reverse=same and not state.processes.reverse)


def _next_sort(frame: Frame, by: int) -> Outcome:
    names = [name for name in SORT_NAMES if name not in frame.state.processes.hidden]
    now = frame.state.processes.sort
    place = names.index(now) if now in names else 0
    return choose(frame.state, sort=names[(place + by) % len(names)], reverse=False), ()


def _toggle(name: str) -> Callable[[Frame], Outcome]:
    def act_on(frame: Frame) -> Outcome:
        before = getattr(frame.state.processes, name)
        return choose(frame.state, **{name: not before}), ()

    return act_on


def _prompt(kind: PromptKind) -> Callable[[Frame], Outcome]:
    def ask(frame: Frame) -> Outcome:
        choice = frame.state.processes
        text = choice.text if kind is PromptKind.FILTER else choice.user or ""
        return replace(frame.state, prompt=Prompt(kind, text, text)), ()

    return ask


def _only_device(frame: Frame) -> Outcome:
    state = frame.state
    device = None if state.processes.device is not None else state.device
    return choose(state, device=device), ()


def _follow(frame: Frame) -> Outcome:
    state = frame.state
    if state.follow is not None and state.process is not None:
        same = state.follow[:2] == state.process[:2]
        return replace(state, follow=None if same else state.process), ()
    if state.process is None:
        return state, ()
    text = f"following process {state.process[0]}; F again stops"
    return noticed(replace(state, follow=state.process), text, frame.now), ()


def _copy(frame: Frame) -> Outcome:
    """Copies what is under the cursor, in the form that commands take."""
    text = copied_text(frame)
    if text is None:
        return frame.state, ()
    return replace(frame.state, copied=text), (Effect(EffectKind.COPY, text),)


def copied_text(frame: Frame) -> str | None:
    state, scene = frame.state, frame.scene
    on_device = state.view is TopView.DEVICES and state.focus is Focus.DEVICES
    if on_device or (state.view is TopView.DEVICE and state.process is None):
        return state.device
    if state.view in (TopView.DEVICES, TopView.PROCESSES, TopView.PROCESS, TopView.DEVICE):
        return _command_of(scene, state.process)
    ids: Sequence[str | None] = ()
    if state.view is TopView.LEASES and scene.leases is not None:
        ids = [row.id for row in scene.leases.leases]
    elif state.view is TopView.RUNS:
        ids = [row.id for row in scene.runs or ()]
    elif state.view is TopView.JOBS:
        ids = [row.label for row in scene.jobs or ()]
    found = nth(ids, state.row())
    return None if found is None else str(found)


def _command_of(scene: Scene, key: ProcessKey | None) -> str | None:
    if scene.snapshot is None or key is None:
        return None
    for status in scene.snapshot.devices:
        for process in status.processes:
            if (process.pid, process.started) == key[:2]:
                return process.command or str(process.pid)
    return None


# The screen.


def _span(frame: Frame, by: int) -> Outcome:
    place = min(range(len(SPANS)), key=lambda i: abs(SPANS[i] - frame.state.span_seconds))
    span = SPANS[max(0, min(len(SPANS) - 1, place + by))]
    state = replace(frame.state, span_seconds=span, graphs=True)
    text = f"graphs over {human_seconds(span)}"
    return noticed(state, text, frame.now, 2.0), (Effect(EffectKind.PAST),)


def _interval(frame: Frame, by: int) -> Outcome:
    now = frame.state.interval_seconds
    place = min(range(len(INTERVALS)), key=lambda i: abs(INTERVALS[i] - now))
    interval = INTERVALS[max(0, min(len(INTERVALS) - 1, place + by))]
    state = replace(frame.state, interval_seconds=interval)
    return noticed(state, f"every {interval:g} s", frame.now, 2.0), (
        Effect(EffectKind.INTERVAL, str(interval)),
    )


def _environment(frame: Frame) -> Outcome:
    state = replace(frame.state, environment=not frame.state.environment)
    return state, ((Effect(EffectKind.ENVIRONMENT),) if state.environment else ())


def _pause(frame: Frame) -> Outcome:
    return replace(frame.state, paused=not frame.state.paused), (Effect(EffectKind.PAUSE),)


def _step(kind: EffectKind) -> Callable[[Frame], Outcome]:
    return lambda frame: (replace(frame.state, paused=True), (Effect(kind),))


def _plain(kind: EffectKind) -> Callable[[Frame], Outcome]:
    return lambda frame: (frame.state, (Effect(kind),))


_ACTIONS: dict[str, Callable[[Frame], Outcome]] = {
    "open": open_chosen,
    "back": back,
    "focus": focus,
    "up": lambda frame: move(frame, -1),
    "down": lambda frame: move(frame, 1),
    "pageup": lambda frame: move(frame, -PAGE),
    "pagedown": lambda frame: move(frame, PAGE),
    "home": lambda frame: move(frame, -1_000_000),
    "end": _plain(EffectKind.END),
    "last": lambda frame: move(frame, 1_000_000),
    "sort_next": lambda frame: _next_sort(frame, 1),
    "sort_previous": lambda frame: _next_sort(frame, -1),
    "reverse": _toggle("reverse"),
    "tree": _toggle("tree"),
    "mine": _toggle("mine"),
    "compute": _toggle("compute_only"),
    "filter": _prompt(PromptKind.FILTER),
    "filter_user": _prompt(PromptKind.USER),
    "filter_device": _only_device,
    "follow": _follow,
    "columns": lambda frame: (replace(frame.state, menu=0), ()),
    "environment": _environment,
    "copy": _copy,
    "graphs": lambda frame: (replace(frame.state, graphs=not frame.state.graphs), ()),
    "span_longer": lambda frame: _span(frame, 1),
    "span_shorter": lambda frame: _span(frame, -1),
    "faster": lambda frame: _interval(frame, -1),
    "slower": lambda frame: _interval(frame, 1),
    "pause": _pause,
    "step": _step(EffectKind.STEP),
    "step_back": _step(EffectKind.STEP_BACK),
    "redraw": _plain(EffectKind.REDRAW),
    "suspend": _plain(EffectKind.SUSPEND),
    "help": lambda frame: (replace(frame.state, help=True), ()),
    "quit": _plain(EffectKind.QUIT),
}
ACTIONS = frozenset(_ACTIONS)
"""Every action but those with a value: `view:…` and `sort:…`."""
