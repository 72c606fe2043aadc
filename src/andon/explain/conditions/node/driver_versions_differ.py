"""Two versions of a driver are in use: what is loaded differs from what is installed."""

from typing import NamedTuple

from andon.explain.conditions.condition import WARNING, Condition, Rung, Subject
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnNode
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
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
            return UNKNOWN if _is_mismatched(found.vendor, snapshot) else Finding(ONE, about=found)
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


def describe(facts: ConditionFacts) -> Description | None:
    """Which versions differ; nothing about the devices of another vendor."""
    about: DifferentVersions = facts.finding.about
    view = facts.view
    if view is not None and view.device.vendor != about.vendor:
        return None
    loaded, part, other = (
        Evidence(f"driver.{name}", getattr(about, name)) for name in ("loaded", "part", "other")
    )
    text = Clause(f"{vendor_of(about.vendor).title}'s driver ")
    text += phrase(
        "{loaded} is loaded, but {part} is {other}", loaded=loaded, part=part, other=other
    )
    return Description(text + Clause(": it works until the next start"))


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
    describe=describe,
    weight=12,
    kinds=(DIFFER,),
    promql="the version of a library on disk is not a metric",
)  # fmt: skip
