"""andon runs in a container that has no GPU, although its host has one."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import WARNING, AlertFacts, Condition, Rung, Subject
from andon.explain.conditions.finding import ONE, Finding
from andon.explain.conditions.judging import OnFault
from andon.explain.conditions.node.drivers import (
    cannot_be_read,
    fault_behind,
    lacks_device_files,
    readable,
)
from andon.explain.evidence.phrasing import CERTAIN, conclude, say
from andon.explain.evidence.reasons import Evidence, FaultExplanation, Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.device import Fault, Snapshot
from andon.model.vendors import NVIDIA, VendorRow, vendor_of_backend

NOT_GIVEN = ReasonKind("container_without_gpu", "the container has no GPU, but its host does", 97)
TOOLKIT = "the host needs NVIDIA's container toolkit"
STARTS = {
    "kubernetes": "Ask for one in the pod: limits: nvidia.com/gpu: 1; the node needs NVIDIA's "
    "device plugin",
    "podman": f"Start it with --device nvidia.com/gpu=all; {TOOLKIT}",
    "apptainer": "Start it with --nv",
    "lxc": "Give it the devices: lxc config device add CONTAINER gpu gpu",
}
"""How each kind of container is given NVIDIA's cards."""
DOCKER = f"Start it with --gpus all; {TOOLKIT}"


class ContainerWithoutGpu(NamedTuple):
    """The device files that the container lacks and its host has."""

    fault: Fault
    others: int  # devices of other vendors that can be read


def judge(fault: Fault, snapshot: Snapshot) -> Finding | None:
    """Judges a container without device files although the host's cards are listed."""
    if not lacks_device_files(fault) or not cannot_be_read(fault, snapshot):
        return None
    return Finding(ONE, about=ContainerWithoutGpu(fault, readable(snapshot)))


def remedy(fault: Fault) -> str:
    """Returns how this kind of container is given the vendor's cards."""
    vendor = vendor_of_backend(fault.source)
    if vendor is NVIDIA:
        return STARTS.get(fault.container or "", DOCKER)
    return f"Start it with its device files: {_files(vendor)}"


def _files(vendor: VendorRow) -> str:
    folders = (path.removesuffix("/*") for path in vendor.device_files.split())
    return " ".join(f"--device {folder}" for folder in folders)


def sentence(facts: AlertFacts) -> str:
    about = facts.finding.about
    if not isinstance(about, ContainerWithoutGpu):
        return "This container has no GPU, although its host has one"
    kind, cards = about.fault.container, about.fault.cards
    title = vendor_of_backend(about.fault.source).title
    return f"This container ({kind}) has no {title} GPU, although its host has {cards}"


def advise(facts: AlertFacts) -> str | None:
    about = facts.finding.about
    return remedy(about.fault) if isinstance(about, ContainerWithoutGpu) else None


def evidence(finding: Finding) -> Mapping[str, float | str]:
    about = finding.about
    if not isinstance(about, ContainerWithoutGpu):
        return {}
    fault = about.fault
    known = {"source": fault.source, "fault": fault.reason, "container": fault.container or ""}
    return {**known, "cards": fault.cards or 0, "devices_readable": about.others}


def explain(view: View) -> Reason | None:
    """Explains a card of the host, which the kernel lists in the container too."""
    fault = fault_behind(view.status, view.snapshot)
    return None if fault is None else explain_fault(fault, view.snapshot)


def explain_fault(fault: Fault, snapshot: Snapshot) -> Reason | None:
    """Explains the fault in place of the driver's own text, which does not mention the
    container."""
    if judge(fault, snapshot) is None:
        return None
    kind = Evidence("container", fault.container)
    cards = Evidence("cards", fault.cards)
    text = say("This container ({kind}) has no GPU, although its host has {n}", kind=kind, n=cards)
    more = [Evidence("source", fault.source), Evidence("fault", fault.reason, "", snapshot.at)]
    return conclude(NOT_GIVEN, CERTAIN, text, more, advice=f"{remedy(fault)}.")


CONDITION = Condition(
    name="container_without_gpu",
    title="Container without GPU",
    subject_kind=Subject.NODE,
    why="andon runs in a container that was not given the host's cards, and sees none.",
    advice=f"{DOCKER}. Kubernetes: limits: nvidia.com/gpu: 1, and NVIDIA's device plugin.",
    judged=OnFault(judge),
    rungs=(
        Rung(
            WARNING,
            "the host's cards are listed, and the container has none of their device files",
            10, "one can be read", 60,
        ),
    ),
    label="not in the container",
    headline="is not in the container",
    sentence=sentence,
    advise=advise,
    evidence=evidence,
    weight=18,
    reasons=(Explanation(explain, (NOT_GIVEN,)),),
    fault_reasons=(FaultExplanation(explain_fault, (NOT_GIVEN,)),),
    promql="a container that was given no card has no metrics for one",
)  # fmt: skip
