"""Every key of `andon top`: what it does, where it works, and its line in the help."""

from functools import lru_cache

from msgspec import Struct

from andon.tui.state import TopState, TopView

TABLES = frozenset((TopView.DEVICES, TopView.PROCESSES, TopView.DEVICE, TopView.PROCESS))
"""Views that are about processes."""
LISTS = frozenset((TopView.DEVICES, TopView.PROCESSES, TopView.DEVICE))


class KeyBinding(Struct, frozen=True):
    """Keys that do the same; the first is the one that is shown."""

    keys: tuple[str, ...]
    action: str
    help: str
    group: str
    short: str = ""  # its word in the line of keys, where it has a place there
    views: frozenset[TopView] | None = None  # None: everywhere
    view: TopView | None = None  # the view that it opens
    only: str = ""  # "replay" or "ending": not where that is missing


KEYS: tuple[KeyBinding, ...] = (
    KeyBinding(("1", "d"), "view:devices", "devices and processes", "views", view=TopView.DEVICES),
    KeyBinding(("2", "p"), "view:processes", "processes alone", "views", view=TopView.PROCESSES),
    KeyBinding(("3", "a"), "view:alerts", "alerts, with what to do", "views", view=TopView.ALERTS),
    KeyBinding(("4", "l"), "view:leases", "leases, and who waits", "views", view=TopView.LEASES),
    KeyBinding(("5", "b"), "view:jobs", "your jobs, and why they wait", "views", view=TopView.JOBS),
    KeyBinding(("6", "r"), "view:runs", "what was run", "views", view=TopView.RUNS),
    KeyBinding(("7", "U"), "view:users", "what each user has", "views", view=TopView.USERS),
    KeyBinding(("q", "f10", "ctrl+c"), "quit", "quit", "screen", "quit"),
    KeyBinding(("h", "question_mark", "f1"), "help", "this help", "screen", "help"),
    KeyBinding(("enter",), "open", "open: a device's page, a process's details", "moving", "open"),
    KeyBinding(("escape", "backspace"), "back", "back; ends a filter", "moving", "back"),
    KeyBinding(
        ("tab",), "focus", "from the devices to the processes", "moving", "table",
        views=frozenset((TopView.DEVICES,)),
    ),
    KeyBinding(("up", "ctrl+p"), "up", "up", "moving"),
    KeyBinding(("down", "ctrl+n", "j"), "down", "down", "moving"),
    KeyBinding(("pageup",), "pageup", "a page up", "moving"),
    KeyBinding(("pagedown",), "pagedown", "a page down", "moving"),
    KeyBinding(("home",), "home", "to the first", "moving"),
    KeyBinding(("end",), "last", "to the last", "moving"),
    KeyBinding(("s", "f6", ">"), "sort_next", "sort by the next column", "processes", "sort",
               views=LISTS),
    KeyBinding(("<",), "sort_previous", "sort by the previous column", "processes", views=LISTS),
    KeyBinding(("I", "R"), "reverse", "reverse the order", "processes", views=LISTS),
    KeyBinding(("M",), "sort:memory", "by GPU memory", "processes", views=LISTS),
    KeyBinding(("G",), "sort:gpu", "by GPU utilisation", "processes", views=LISTS),
    KeyBinding(("P",), "sort:cpu", "by CPU", "processes", views=LISTS),
    KeyBinding(("T",), "sort:time", "by time", "processes", views=LISTS),
    KeyBinding(("N",), "sort:pid", "by PID", "processes", views=LISTS),
    KeyBinding(("slash", "f4", "backslash", "f3"), "filter",
               "filter by text: program, user, pid, container", "processes", "filter", views=LISTS),
    KeyBinding(("u",), "filter_user", "only one user's", "processes", views=LISTS),
    KeyBinding(("m",), "mine", "only mine, and all again", "processes", "mine", views=LISTS),
    KeyBinding(("c",), "compute", "only compute, and all again", "processes", views=LISTS),
    KeyBinding(("f",), "filter_device", "only on this device, and all again", "processes",
               views=frozenset((TopView.DEVICES, TopView.PROCESSES))),
    KeyBinding(("t", "f5"), "tree", "as a tree", "processes", "tree", views=LISTS),
    KeyBinding(("F",), "follow", "follow this process, and say when it ends", "processes",
               views=TABLES),
    KeyBinding(("o", "f2"), "columns", "which columns are shown", "processes", views=LISTS),
    KeyBinding(("e",), "environment", "environment of your own process", "processes", "env",
               views=frozenset((TopView.PROCESS,))),
    KeyBinding(("k", "f9"), "end", "end this process: asks first", "processes", "end",
               views=TABLES, only="ending"),
    KeyBinding(("y",), "copy", "copy: a UUID, a command, an id", "screen"),
    KeyBinding(("g",), "graphs", "graphs on and off", "screen", "graphs"),
    KeyBinding(("z", "right_square_bracket"), "span_longer", "graphs over a longer time", "screen",
               "span"),
    KeyBinding(("Z", "left_square_bracket"), "span_shorter", "graphs over a shorter time",
               "screen"),
    KeyBinding(("plus", "equals_sign"), "faster", "sample more often", "screen"),
    KeyBinding(("minus",), "slower", "sample less often", "screen"),
    KeyBinding(("space",), "pause", "pause, and resume", "screen"),
    KeyBinding(("full_stop",), "step", "next snapshot, in a replay", "screen", "step",
               only="replay"),
    KeyBinding(("comma",), "step_back", "previous snapshot, in a replay", "screen",
               only="replay"),
    KeyBinding(("ctrl+l",), "redraw", "redraw the screen", "screen"),
    KeyBinding(("ctrl+z",), "suspend", "suspend to the shell; fg returns", "screen"),
)  # fmt: skip

_NAMES = {
    "enter": "Enter", "escape": "Esc", "backspace": "Backspace", "tab": "Tab", "up": "↑",
    "down": "↓", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "slash": "/",
    "backslash": "\\", "plus": "+", "equals_sign": "=", "minus": "-", "space": "Space",
    "full_stop": ".", "comma": ",", "question_mark": "?", "right_square_bracket": "]",
    "left_square_bracket": "[",
}  # fmt: skip


def key_name(key: str) -> str:
    """Returns a key's name: `Ctrl-Z`, `F9`, `/`."""
    if key.startswith("ctrl+"):
        return f"Ctrl-{key[5:].upper()}"
    if len(key) > 1 and key[0] == "f" and key[1:].isdecimal():
        return key.upper()
    return _NAMES.get(key, key)


def bindings_for(state: TopState) -> tuple[KeyBinding, ...]:
    """Returns the keys that work in this state."""
    return _bindings(state.view, state.can_end, state.replayed)


@lru_cache(maxsize=64)
def _bindings(view: TopView, can_end: bool, replayed: bool) -> tuple[KeyBinding, ...]:
    return tuple(
        binding
        for binding in KEYS
        if (binding.views is None or view in binding.views)
        and _is_offered(binding, can_end, replayed)
    )


def _is_offered(binding: KeyBinding, can_end: bool, replayed: bool) -> bool:
    """Whether this session has the key at all."""
    return not {"ending": not can_end, "replay": not replayed}.get(binding.only, False)


def action_of(state: TopState, key: str, character: str | None) -> str | None:
    """Returns the action of a key here; None if it has none. Capital letters are recognised by
    their character."""
    typed = character if character and len(character) == 1 and character.isprintable() else None
    for binding in bindings_for(state):
        if key in binding.keys or (typed is not None and typed in binding.keys):
            return binding.action
    return None


def help_groups(state: TopState) -> dict[str, list[tuple[str, str]]]:
    """Returns every key that this session has, by group, for the help."""
    found: dict[str, list[tuple[str, str]]] = {}
    for binding in KEYS:
        if _is_offered(binding, state.can_end, state.replayed):
            names = " ".join(key_name(key) for key in binding.keys)
            found.setdefault(binding.group, []).append((names, binding.help))
    return found
