"""Named scenarios of simulated devices, and scripted faults."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from andon.drivers.sim.rules.workloads import MODELS, Model, Workload
from andon.errors import Invalid
from andon.model.device import SAMPLE_VALUES

MAX_DEVICES = 1024
DEMO, DEMO_DEVICES = "lab", 8  # what runs in it is in `demo.py`


class Scenario(Struct, frozen=True):
    """Model and workload of each device in turn, and the faults."""

    parts: tuple[tuple[str, Workload], ...]
    faults: tuple[str, ...] = ()


SCENARIOS = {
    "mixed": Scenario((
        ("H200", Workload.TRAINING),
        ("T4", Workload.IDLE),  # of two devices one is free: `andon run --simulate 2` works
        ("A100", Workload.HELD),
        ("RTX 4090", Workload.OVERHEATING),
        ("H100", Workload.POWER_CAPPED),
        ("L4", Workload.LEAKING),
        ("L40S", Workload.INFERENCE),
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
    DEMO: Scenario((*[("H200", Workload.IDLE)] * 4, *[("H100", Workload.IDLE)] * 4), ("lost:6@0",)),
}  # fmt: skip

# Fault scripts: KIND[:DEVICE][@START[..END]][=VALUE], in seconds since the simulation was opened.


class ScriptedFault(StrEnum):
    """The faults that a script can cause."""

    LOST = "lost"
    HUNG = "hung"
    SLOW = "slow"
    UNSUPPORTED = "unsupported"
    ECC = "ecc"
    XID = "xid"
    CRASH = "crash"
    UNAVAILABLE = "unavailable"


class Script(Struct, frozen=True):
    """One fault from `since` until `until`; no device means the whole vendor."""

    trouble: ScriptedFault
    device: int | None = None
    since: float = 0.0
    until: float = float("inf")
    value: str = ""
    text: str = ""

    def active(self, elapsed_seconds: float, device: int | None = None) -> bool:
        return self.device == device and self.since <= elapsed_seconds < self.until


class ScenarioPlan(Struct, frozen=True):
    """A whole simulation: model and workload of each device, and the faults."""

    parts: tuple[tuple[Model, Workload], ...]
    scripts: tuple[Script, ...]


_NUMBER = r"\d+(?:\.\d+)?"
_SCRIPT = (
    rf"(?P<kind>[a-z]+)(?::(?P<device>\d+))?"
    rf"(?:@(?P<since>{_NUMBER})(?:\.\.(?P<until>{_NUMBER}))?)?(?:=(?P<value>\S+))?"
)
_WHOLE = (ScriptedFault.CRASH, ScriptedFault.UNAVAILABLE)
_MOMENTS = (ScriptedFault.CRASH, ScriptedFault.XID)
_VALUES = {
    ScriptedFault.SLOW: (_NUMBER, "seconds, e.g. slow:1=0.3"),
    ScriptedFault.ECC: (r"[1-9]\d*", "a count, e.g. ecc:4@15=1"),
    ScriptedFault.XID: (r"[1-9]\d{0,2}", "an Xid number, e.g. xid:1@30=79"),
    ScriptedFault.UNSUPPORTED: (
        "|".join((*SAMPLE_VALUES, "processes")),
        "a reading, e.g. unsupported:0=fan_percent",
    ),
}


def plan(count: int, scenario: str, models: Sequence[str], faults: Sequence[str]) -> ScenarioPlan:
    """Returns the plan; Invalid lists all mistakes at once."""
    mistakes: list[str] = []
    if not 0 <= count <= MAX_DEVICES:
        mistakes.append(f"count must be 0 to {MAX_DEVICES}, not {count}")
    if scenario not in SCENARIOS:
        mistakes.append(f"scenario {scenario!r} is not one of: {', '.join(SCENARIOS)}")
    chosen = [_model(name, mistakes) for name in models]
    scripts = _scripts(faults, count, mistakes)
    if mistakes:
        raise Invalid(
            "the simulation settings are not valid",
            hint="examples of faults: lost:2@10..20, hung:3@5, slow:1=0.3, ecc:0@15=1, xid:1@30=79",
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
    """Parses fault scripts for `count` devices; Invalid lists all mistakes at once."""
    mistakes: list[str] = []
    scripts = _scripts(texts, count, mistakes)
    if mistakes:
        raise Invalid(f"invalid fault scripts: {'; '.join(mistakes)}", mistakes=tuple(mistakes))
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
        match = re.fullmatch(_SCRIPT, text.strip())
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
    """Yields what is wrong with a script that could be parsed."""
    trouble = script.trouble
    if trouble in _WHOLE and script.device is not None:
        yield f"{trouble} applies to all devices and takes none"
    if trouble not in _WHOLE and script.device is None:
        yield f"{trouble} needs a device, e.g. {trouble}:0"
    if script.device is not None and script.device >= count:
        yield f"no device {script.device}: there are {count}"
    if script.until <= script.since:
        yield "it ends before it begins"
    if trouble in _MOMENTS and match["until"] is not None:
        yield f"{trouble} happens once and has no end"
    if trouble in _MOMENTS and script.since < 1:
        example = "crash@5" if trouble is ScriptedFault.CRASH else "xid:0@5=79"
        yield f"{trouble} needs a time of at least 1 s, e.g. {example}"
    yield from _value_doubts(script)


def _value_doubts(script: Script) -> Iterable[str]:
    form, example = _VALUES.get(script.trouble, ("", "nothing"))
    if not re.fullmatch(form, script.value):
        yield f"its value is {script.value!r}, but should be {example}"
