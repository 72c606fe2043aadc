"""The alert state as JSON, so that it survives a restart, adjusted after a reboot."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from andon.alerts.rules.state import NEVER, AlertState, Episode, LastEnd, Location, Steady
from andon.explain.conditions.catalogue import BY_NAME
from andon.explain.evidence.observation import Moment
from andon.model.alert import Alert, Phase, Silence
from andon.model.codec import Name, Whole, read_schema
from andon.model.shapes import names_of, plain, to_json

VERSION = "andon.alerting/1"
LONGEST_AWAY_SECONDS = 86_400.0
_EPISODE = names_of(Episode, without=("rungs", "due"))
Code = Annotated[str, Meta(pattern=r"\A-?[0-9]{1,19}\Z")]
_AS_IT_IS = ("silences", "ended", "seconds", "places", "ecc", "wall", "steady", "boot")

Json = dict[str, Any]


class StoredState(Struct, frozen=True):
    """`andon.alerting/1`. Later judgements rely on its types and bounds."""

    episodes: tuple[Episode, ...]
    silences: tuple[Silence, ...]
    owed: tuple[Alert, ...]
    ended: Mapping[Name, LastEnd]
    seconds: Mapping[Name, Whole]
    places: Mapping[Name, Location]
    ecc: Mapping[Name, Whole]
    xids: Mapping[Name, Mapping[Code, Steady]]
    wall: Steady
    steady: Steady | None
    boot: Name | None


def dump(state: AlertState) -> Json:
    """Returns what must survive a restart: small, and unchanged after `restore`."""
    episodes = [one for on in state.episodes.values() for one in on.values()]
    xids = {one: {str(code): at for code, at in on.items()} for one, on in state.xids.items()}
    fields = plain(state, (*_AS_IT_IS, "owed"))
    fields["episodes"] = [plain(one, _EPISODE) for one in episodes]
    return {"schema": VERSION, **to_json(fields), "xids": xids}


def restore(data: Json, moment: Moment, boot: str | None) -> AlertState:
    """Returns the dumped state; raises Invalid if it cannot be read. Within the same boot the
    steady clock continues; after a reboot the wall clock bridges the time away, between 0 and
    one day."""
    state = _state(read_schema(StoredState, data, VERSION))
    if state.steady is None or (state.boot == boot and moment.steady >= state.steady):
        return state
    return _rebooted(state, moment, boot)


def _rebooted(state: AlertState, moment: Moment, boot: str | None) -> AlertState:
    """Returns the state after a reboot: pending alerts are dropped, driver counters start at 0."""
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

    momentary = BY_NAME[episode.alert.rule].momentary
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


def _state(found: StoredState) -> AlertState:
    episodes: dict[str, dict[str, Episode]] = {}
    owed = [*found.owed]
    for one in found.episodes:
        if _is_known(one):
            episode = replace(one, rungs=(), due=NEVER)
            episodes.setdefault(one.alert.subject, {})[one.alert.rule] = episode
        elif one.notified_rank is not None:  # people who were notified of it hear of its end
            owed.append(replace(one.alert, state=Phase.RESOLVED, resolved=found.wall))
    xids = {one: {int(code): at for code, at in on.items()} for one, on in found.xids.items()}
    fields = plain(found, _AS_IT_IS)
    return AlertState(episodes=episodes, owed=tuple(owed), xids=xids, **fields)


def _is_known(episode: Episode) -> bool:
    """Whether this version has its rule, with as many rungs as the one that wrote it."""
    rule = BY_NAME.get(episode.alert.rule)
    return rule is not None and len(episode.held) == len(episode.calm) == len(rule.rungs)
