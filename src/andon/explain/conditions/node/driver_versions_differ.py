"""Two versions of a driver are in use: what is loaded differs from what is installed."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import WARNING, AlertFacts, Condition, Rung, Subject
from andon.explain.conditions.finding import ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnNode
from andon.explain.evidence.phrasing import CERTAIN, conclude, say
from andon.explain.evidence.reasons import Evidence, Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.device import DriverVersions, FaultCode, Snapshot
from andon.model.thresholds import Thresholds
from andon.model.vendors import vendor_of, vendor_of_backend

DIFFER = ReasonKind("driver_versions_differ", "two versions of its driver are in use", 43)
ADVICE = (
    "Reboot, or stop what uses the devices and reload the driver's modules. Until then running "
    "programs continue, but new ones may fail."
)


class DifferentVersions(NamedTuple):
    """The version that the driver has, and the part that has another one."""

    vendor: str
    loaded: str
    part: str  # "its library on disk", "nvidia_uvm"
    other: str


def judge(snapshot: Snapshot, figures: Thresholds) -> Finding | None:
    """Judges differing versions, unless the driver cannot be read because of them: that has its
    own alert."""
    drivers = snapshot.host.drivers
    if drivers is None:
        return UNKNOWN
    for driver in drivers:
        found = difference(driver)
        if found is not None:
            return (
                UNKNOWN if _is_mismatched(found.vendor, snapshot) else Finding(ONE, about=found)
            )
    return None


def difference(driver: DriverVersions) -> DifferentVersions | None:
    """The first part whose version is not that of its driver; unknown ones do not count."""
    main = next((name for name in vendor_of(driver.vendor).drivers if name in driver.modules), None)
    if main is None:
        return None
    loaded = driver.modules[main]
    for name, version in driver.modules.items():
        if version != loaded:
            return DifferentVersions(driver.vendor, loaded, name, version)
    if driver.library is None or driver.library == loaded:
        return None
    return DifferentVersions(driver.vendor, loaded, "its library on disk", driver.library)


def _is_mismatched(vendor: str, snapshot: Snapshot) -> bool:
    return any(
        fault.code == FaultCode.VERSION_MISMATCH and vendor_of_backend(fault.source).name == vendor
        for fault in snapshot.faults
    )


def sentence(facts: AlertFacts) -> str:
    about = facts.finding.about
    if not isinstance(about, DifferentVersions):
        return f"Two versions of a driver are in use on {facts.it}"
    title = vendor_of(about.vendor).title
    return (
        f"{title}'s driver {about.loaded} is loaded, but {about.part} is {about.other}: it works "
        "until the next start"
    )


def evidence(finding: Finding) -> Mapping[str, float | str]:
    about = finding.about
    return about._asdict() if isinstance(about, DifferentVersions) else {}


def explain(view: View) -> Reason | None:
    """Explains, for every device of the vendor, that programs which start now may not find it."""
    found = judge(view.snapshot, view.figures)
    about = None if found is None else found.about
    if not isinstance(about, DifferentVersions) or about.vendor != view.status.device.vendor:
        return None
    parts = {name: Evidence(f"driver.{name}", value) for name, value in about._asdict().items()}
    text = say(
        "Driver {loaded} is loaded, but {part} is {other}: programs that start now may fail",
        loaded=parts["loaded"], part=parts["part"], other=parts["other"],
    )  # fmt: skip
    return conclude(DIFFER, CERTAIN, text, advice=ADVICE)


CONDITION = Condition(
    name="driver_versions_differ",
    title="Two driver versions",
    subject_kind=Subject.NODE,
    why="A driver was installed while another version was loaded. Running programs continue; new "
    "ones, andon included, may fail because driver and library differ.",
    advice=ADVICE,
    judged=OnNode(judge),
    rungs=(
        Rung(
            WARNING,
            "a module or the library on disk has a different version than the loaded driver",
            60, "all versions are the same", 60,
        ),
    ),
    sentence=sentence,
    evidence=evidence,
    weight=12,
    reasons=(Explanation(explain, (DIFFER,)),),
    promql="the version of a library on disk is not a metric",
)  # fmt: skip
