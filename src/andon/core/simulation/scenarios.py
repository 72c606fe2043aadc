"""Named scenarios of simulated devices, and the scripts of what goes wrong with them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from andon.core.simulation.workloads import MODELS, Model, Workload
from andon.errors import Invalid
from andon.model.device import SAMPLE_VALUES

MAX_DEVICES = 1024


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parts that the devices take in turn, and what goes wrong."""

    parts: tuple[tuple[str, Workload], ...]
    faults: tuple[str, ...] = ()


SCENARIOS = {
    "mixed": Scenario((
        ("H200", Workload.TRAINING),
        ("L40S", Workload.INFERENCE),
        ("A100", Workload.HELD),
        ("RTX 4090", Workload.OVERHEATING),
        ("H100", Workload.POWER_CAPPED),
        ("L4", Workload.LEAKING),
        ("T4", Workload.IDLE),
        ("MI300X", Workload.TRAINING),
        ("RTX 3090", Workload.INFERENCE),
        ("RTX 4070 Laptop", Workload.IDLE),
    )),
    "training": Scenario((("H200", Workload.TRAINING),)),
    "idle": Scenario((("H100", Workload.IDLE),)),
    "faulty": Scenario(
        (
            ("H100", Workload.TRAINING),
            ("H100", Workload.TRAINING),
            ("H100", Workload.INFERENCE),
            ("H100", Workload.IDLE),
        ),
        ("ecc:0@0=1", "lost:1@0", "hung:2@0", "xid:3@10=31"),
    ),
    "hot": Scenario((
        ("RTX 4090", Workload.OVERHEATING),
        ("A100", Workload.OVERHEATING),
        ("RTX 3090", Workload.OVERHEATING),
        ("H100", Workload.OVERHEATING),
    )),
}  # fmt: skip

# Fault scripts: KIND[:DEVICE][@START[..END]][=VALUE], in seconds since the simulation was opened.


class ScriptedFault(StrEnum):
    """What a script can make go wrong."""

    LOST = "lost"
    HUNG = "hung"
    SLOW = "slow"
    UNSUPPORTED = "unsupported"
    ECC = "ecc"
    XID = "xid"
    CRASH = "crash"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Script:
    """One thing that goes wrong from `since` until `until`; no device means the whole vendor."""

    trouble: ScriptedFault
    device: int | None = None
    since: float = 0.0
    until: float = float("inf")
    value: str = ""
    text: str = ""

    def active(self, elapsed_seconds: float, device: int | None = None) -> bool:
        return self.device == device and self.since <= elapsed_seconds < self.until


@dataclass(frozen=True, slots=True)
class ScenarioPlan:
    """A whole simulation: who plays what, and what goes wrong."""

    parts: tuple[tuple[Model, Workload], ...]
    scripts: tuple[Script, ...]


_NUMBER = r"\d+(?:\.\d+)?"
_SCRIPT = re.compile(
    rf"(?P<kind>[a-z]+)(?::(?P<device>\d+))?"
    rf"(?:@(?P<since>{_NUMBER})(?:\.\.(?P<until>{_NUMBER}))?)?(?:=(?P<value>\S+))?"
)
_WHOLE = (ScriptedFault.CRASH, ScriptedFault.UNAVAILABLE)
_MOMENTS = (ScriptedFault.CRASH, ScriptedFault.XID)
_VALUES = {
    ScriptedFault.SLOW: (re.compile(_NUMBER), "seconds, as in slow:1=0.3"),
    ScriptedFault.ECC: (re.compile(r"[1-9]\d*"), "a count, as in ecc:4@15=1"),
    ScriptedFault.XID: (re.compile(r"[1-9]\d{0,2}"), "an Xid's number, as in xid:1@30=79"),
    ScriptedFault.UNSUPPORTED: (
        re.compile("|".join((*SAMPLE_VALUES, "processes"))),
        "a reading, as in unsupported:0=fan_percent",
    ),
}


def plan(count: int, scenario: str, models: Sequence[str], faults: Sequence[str]) -> ScenarioPlan:
    """Who plays what; Invalid names every mistake at once."""
    mistakes: list[str] = []
    if not 0 <= count <= MAX_DEVICES:
        mistakes.append(f"count is {count}, not between 0 and {MAX_DEVICES}")
    if scenario not in SCENARIOS:
        mistakes.append(f"scenario {scenario!r} is not one of: {', '.join(SCENARIOS)}")
    chosen = [_model(name, mistakes) for name in models]
    scripts = _scripts(faults, count, mistakes)
    if mistakes:
        raise Invalid(
            "the simulation makes no sense",
            hint="faults look like lost:2@10..20, hung:3@5, slow:1=0.3, ecc:0@15=1, xid:1@30=79",
            mistakes=tuple(mistakes),
        )
    played = SCENARIOS[scenario]
    own = parse_faults(played.faults)
    parts = (played.parts[index % len(played.parts)] for index in range(count))
    return ScenarioPlan(
        tuple(
            (chosen[index % len(chosen)] if chosen else MODELS[model], workload)
            for index, (model, workload) in enumerate(parts)
        ),
        (*(script for script in own if (script.device or 0) < count), *scripts),
    )


def parse_faults(texts: Iterable[str], count: int = MAX_DEVICES) -> tuple[Script, ...]:
    """The scripts behind the texts, for `count` devices; Invalid names every mistake at once."""
    mistakes: list[str] = []
    scripts = _scripts(texts, count, mistakes)
    if mistakes:
        raise Invalid(f"bad fault scripts: {'; '.join(mistakes)}", mistakes=tuple(mistakes))
    return scripts


def _model(name: str, mistakes: list[str]) -> Model:
    known = {_plain(key): model for key, model in MODELS.items()}
    if _plain(name) not in known:
        mistakes.append(f"model {name!r} is not one of: {', '.join(MODELS)}")
    return known.get(_plain(name), MODELS["H200"])


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _scripts(texts: Iterable[str], count: int, mistakes: list[str]) -> tuple[Script, ...]:
    found = []
    for text in texts:
        match = _SCRIPT.fullmatch(text.strip())
        if match is None or match["kind"] not in list(ScriptedFault):
            mistakes.append(
                f"{text!r}: not one of {', '.join(ScriptedFault)} with its device and time"
            )
            continue
        script = _script(match)
        mistakes.extend(f"{text!r}: {why}" for why in _doubts(script, match, count))
        found.append(script)
    return tuple(found)


def _script(match: re.Match[str]) -> Script:
    return Script(
        trouble=ScriptedFault(match["kind"]),
        device=None if match["device"] is None else int(match["device"]),
        since=float(match["since"] or 0),
        until=float(match["until"] or "inf"),
        value=match["value"] or "",
        text=match[0],
    )


def _doubts(script: Script, match: re.Match[str], count: int) -> Iterable[str]:
    """Everything that is wrong with a script whose form is right."""
    trouble = script.trouble
    if trouble in _WHOLE and script.device is not None:
        yield f"{trouble} is about all devices and takes none"
    if trouble not in _WHOLE and script.device is None:
        yield f"{trouble} needs a device, as in {trouble}:0"
    if script.device is not None and script.device >= count:
        yield f"there is no device {script.device} among {count}"
    if script.until <= script.since:
        yield "it ends before it begins"
    if trouble in _MOMENTS and match["until"] is not None:
        yield f"{trouble} is a moment and has no end"
    if trouble in _MOMENTS and script.since < 1:
        example = "crash@5" if trouble is ScriptedFault.CRASH else "xid:0@5=79"
        yield f"{trouble} needs a later second, as in {example}: a reader opened after it is spared"
    yield from _value_doubts(script)


def _value_doubts(script: Script) -> Iterable[str]:
    form, example = _VALUES.get(script.trouble, (re.compile(""), "nothing"))
    if not form.fullmatch(script.value):
        yield f"its value is {script.value!r}, and should be {example}"
