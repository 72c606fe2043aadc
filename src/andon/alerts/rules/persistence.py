"""The alert state as JSON, so that it survives a restart, adjusted after a reboot."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from andon.alerts.rules.state import AlertState, Episode, LastEnd, Location
from andon.errors import Invalid
from andon.explain.conditions.catalogue import BY_NAME
from andon.explain.conditions.observation import Moment
from andon.model.alert import Alert, Phase
from andon.model.alert_wire import (
    alert_from_json,
    alert_to_json,
    silence_from_json,
    silence_to_json,
)

VERSION = "andon.alerting/1"
LONGEST_AWAY_SECONDS = 86_400.0
MOMENTARY = ("xid", "ecc")

Json = dict[str, Any]
T = TypeVar("T")


def dump(state: AlertState) -> Json:
    """Returns what must survive a restart: small, and unchanged after `restore`."""
    return {
        "schema": VERSION,
        "boot": state.boot,
        "wall": state.wall,
        "steady": state.steady,
        "episodes": [
            _episode_to_json(episode) for on in state.episodes.values() for episode in on.values()
        ],
        "silences": [silence_to_json(silence) for silence in state.silences],
        "owed": [alert_to_json(alert) for alert in state.owed],
        "ended": {key: list(ended) for key, ended in state.ended.items()},
        "seconds": dict(state.seconds),
        "places": {uuid: list(place) for uuid, place in state.places.items()},
        "ecc": dict(state.ecc),
        "xids": {
            subject: {str(code): at for code, at in codes.items()}
            for subject, codes in state.xids.items()
        },
    }


def restore(data: Json, moment: Moment, boot: str | None) -> AlertState:
    """Returns the dumped state; raises Invalid if it cannot be read. Within the same boot the
    steady clock continues; after a reboot the wall clock bridges the time away, between 0 and
    one day."""
    if data.get("schema") != VERSION:
        raise Invalid(f"the schema is {data.get('schema')!r}, not {VERSION!r}")
    try:
        state = _state(data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as exc:
        raise Invalid(f"the state of the alerts cannot be read: {exc!r}") from exc
    if state.steady is None or (state.boot == boot and moment.steady >= state.steady):
        return state
    return _rebooted(state, moment, boot)


def _rebooted(state: AlertState, moment: Moment, boot: str | None) -> AlertState:
    """The state after a reboot: pending alerts are dropped; the driver's counters start at 0."""
    away = min(max(0.0, moment.wall - state.wall), LONGEST_AWAY_SECONDS)
    shift = moment.steady - away - (state.steady or 0.0)
    episodes = {
        subject: {
            rule: _shifted(episode, shift)
            for rule, episode in on.items()
            if episode.alert.state is Phase.FIRING
        }
        for subject, on in state.episodes.items()
    }
    return replace(
        state,
        episodes={subject: on for subject, on in episodes.items() if on},
        ended={key: LastEnd(e.at + shift, e.factor) for key, e in state.ended.items()},
        ecc=dict.fromkeys(state.ecc, 0),
        steady=moment.steady - away,
        boot=boot,
    )


def _shifted(episode: Episode, shift: float) -> Episode:
    def moved(time: float | None) -> float | None:
        return None if time is None else time + shift

    momentary = episode.alert.rule in MOMENTARY
    calm = tuple(None if momentary else moved(time) for time in episode.calm)
    return replace(
        episode,
        held=tuple(moved(time) for time in episode.held),
        calm=calm,
        dark=moved(episode.dark),
        fired=moved(episode.fired),
        notified_at=moved(episode.notified_at),
        restarted=momentary,
    )


_TIMES = ("worst", "dark", "fired", "notified_at")
_COUNTS = ("up", "factor", "reminders")
_RANKS = ("notified_rank", "covered")
_FLAGS = ("restarted", "notifiable")
_PLAIN = (*_TIMES, *_COUNTS, *_RANKS, *_FLAGS)
FURTHEST = 1e12  # seconds: no clock gets there
MOST_COUNT = 1 << 16


def _episode_to_json(episode: Episode) -> Json:
    return {
        "alert": alert_to_json(episode.alert),
        "held": list(episode.held),
        "calm": list(episode.calm),
        **{name: getattr(episode, name) for name in _PLAIN},
    }


def _state(data: Json) -> AlertState:
    episodes: dict[str, dict[str, Episode]] = {}
    owed = [alert_from_json(value) for value in data["owed"]]
    for value in data["episodes"]:
        episode = _episode(value)
        if not _is_known(episode):
            owed += _ended(episode, _number(data["wall"]))
            continue
        episodes.setdefault(episode.alert.subject, {})[episode.alert.rule] = episode
    return AlertState(
        episodes=episodes,
        silences=tuple(silence_from_json(value) for value in data["silences"]),
        owed=tuple(owed),
        ended=_each(data["ended"], lambda v: LastEnd(_number(v[0]), _count(v[1]))),
        seconds=_each(data["seconds"], lambda v: int(_number(v))),
        places=_each(data["places"], _location),
        ecc=_each(data["ecc"], lambda v: int(_number(v))),
        xids={
            str(subject): {int(code): _number(at) for code, at in codes.items()}
            for subject, codes in data["xids"].items()
        },
        wall=_number(data["wall"]),
        steady=_time(data["steady"]),
        boot=None if data["boot"] is None else str(data["boot"]),
    )


def _is_known(episode: Episode) -> bool:
    """Whether this version has its rule, with as many rungs as the one that wrote it."""
    rule = BY_NAME.get(episode.alert.rule)
    return rule is not None and len(episode.held) == len(episode.calm) == len(rule.rungs)


def _ended(episode: Episode, wall: float) -> list[Alert]:
    """Returns the end of an alert, for people who were notified of it."""
    if episode.notified_rank is None:
        return []
    return [replace(episode.alert, state=Phase.RESOLVED, resolved=wall)]


def _episode(value: Json) -> Episode:
    """Reads an episode with the right types and within bounds: later judgements rely on them."""
    plain: dict[str, Any] = {name: _time(value[name]) for name in _TIMES}
    plain |= {name: _count(value[name]) for name in _COUNTS}
    plain |= {name: None if value[name] is None else _count(value[name]) for name in _RANKS}
    plain |= {name: _flag(value[name]) for name in _FLAGS}
    return Episode(
        alert=alert_from_json(value["alert"]),
        held=tuple(map(_time, _list(value["held"]))),
        calm=tuple(map(_time, _list(value["calm"]))),
        **plain,
    )


def _location(value: Any) -> Location:
    vendor, parent = _list(value)
    if not isinstance(vendor, str) or not isinstance(parent, str | None):
        raise TypeError("not a place")
    return Location(vendor, parent)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError("not a list")
    return list(value)


def _time(value: Any) -> float | None:
    return None if value is None else _number(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not a number")
    if not -FURTHEST <= value <= FURTHEST:  # NaN is not either
        raise ValueError("not a possible number")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_COUNT:
        raise TypeError("not a count")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not true or false")
    return value


def _each(values: Mapping[str, Any], read: Callable[[Any], T]) -> dict[str, T]:
    return {str(key): read(value) for key, value in values.items()}
