"""Which of the stored probes a name means."""

from collections.abc import Sequence

from andon.errors import Conflict, Gone
from andon.model.probe import ProbeResult


def best(probes: Sequence[ProbeResult], name: str, model: str | None = None) -> ProbeResult:
    """The newest of this name; Conflict if it was probed on several models and none is named."""
    named = [one for one in probes if one.name == name]
    if not named:
        known = ", ".join(dict.fromkeys(one.name for one in probes)) or "none"
        raise Gone(f"no probe is named {name!r}", hint=f"stored: {known}")
    fitting = [one for one in named if model is None or model.lower() in one.model.lower()]
    kinds = sorted({_kind(one) for one in fitting})
    if not fitting:
        models = ", ".join(sorted({one.model for one in named}))
        raise Gone(f"{name} was not probed on {model}", hint=f"it was probed on: {models}")
    if len(kinds) > 1:
        raise Conflict(
            f"{name} was probed on {len(kinds)} kinds of devices: {', '.join(kinds)}",
            hint="say which: --model NAME; or store them under different names with --name",
        )
    return fitting[0]


def _kind(probe: ProbeResult) -> str:
    return probe.model if probe.devices == 1 else f"{probe.devices}x {probe.model}"
