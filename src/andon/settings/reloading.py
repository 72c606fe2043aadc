"""Decides which settings a running server takes over when it reads them again."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import asdict, replace

from andon.settings.resolution import TABLES
from andon.settings.table import FIELDS, Settings

LIVE = frozenset({
    "alerts_figures", "alerts_overrides", "alerts_disabled_rules", "alerts_renotify_seconds",
    "alerts_notifiers", "alerts_minimum_level", "alerts_quiet_hours", "reports_weekly",
    "reports_by", "share_labels",
})  # fmt: skip
"""The settings that change without a restart."""
_PLACES = {field.name: field.place for field in FIELDS} | {n: p for p, n in TABLES.items()}


class ReloadedSettings(Struct, frozen=True):
    """The settings that are in force after a reload."""

    settings: Settings
    changed: tuple[str, ...] = ()
    """What differs now, by its place in the file, without secrets."""
    on_restart: tuple[str, ...] = ()
    """What differs in the file and waits for a restart."""
    same_notifiers: frozenset[str] = frozenset()
    """The names of notifiers that are as they were."""

    @property
    def text(self) -> str:
        """One sentence for a log."""
        text = f"read again: {', '.join(self.changed) or 'nothing changed'}"
        return text + f"; on restart: {', '.join(self.on_restart)}" * bool(self.on_restart)


def reloaded(now: Settings, read: Settings) -> ReloadedSettings:
    """Returns what becomes of the settings in force once these were read."""
    old, new = asdict(now), asdict(read)
    different = [name for name in old if old[name] != new[name]]
    live = {name: new[name] for name in different if name in LIVE}
    waiting = [_PLACES.get(name, name) for name in different if name not in LIVE]
    same = frozenset(one.name for one in read.alerts_notifiers if one in now.alerts_notifiers)
    return ReloadedSettings(
        replace(now, **live), tuple(_named(now, read, live)), tuple(waiting), same
    )


def _named(now: Settings, read: Settings, live: dict[str, object]) -> Iterator[str]:
    for name in live:
        if name == "alerts_figures":
            old, new = dict(now.alerts_figures), dict(read.alerts_figures)
            figures = sorted({n for n, _ in set(old.items()) ^ set(new.items())})
            yield from (f"alerts.{one} = {_figure(new, one)}" for one in figures)
        elif name == "alerts_notifiers":
            known, added = now.alerts_notifiers, read.alerts_notifiers
            both = [one for one in (*known, *added) if one not in known or one not in added]
            yield from (f"alerts.notifier {one}" for one in sorted({n.name for n in both}))
        else:
            yield _PLACES[name]


def _figure(figures: dict[str, float | None], name: str) -> str:
    if name not in figures:
        return "its default"
    figure = figures[name]
    return "off" if figure is None else f"{figure:.15g}"
