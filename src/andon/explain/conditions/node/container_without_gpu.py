"""andon runs in a container that has no GPU, although its host has one."""

from andon.explain.conditions.condition import WARNING, Condition, Rung, Subject
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import ONE, Finding
from andon.explain.conditions.judging import OnFault
from andon.explain.conditions.node.drivers import (
    UnreadableDriver,
    cannot_be_read,
    lacks_device_files,
    of_driver,
    readable,
)
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
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


def judge(fault: Fault, snapshot: Snapshot) -> Finding | None:
    """Judges a container without device files although the host's cards are listed."""
    if not lacks_device_files(fault) or not cannot_be_read(fault, snapshot):
        return None
    return Finding(ONE, about=UnreadableDriver(fault, readable(snapshot)))


def remedy(fault: Fault) -> str:
    """Returns how this kind of container is given the vendor's cards."""
    vendor = vendor_of_backend(fault.source)
    if vendor is NVIDIA:
        return STARTS.get(fault.container or "", DOCKER)
    return f"Start it with its device files: {_files(vendor)}"


def _files(vendor: VendorRow) -> str:
    folders = (path.removesuffix("/*") for path in vendor.device_files.split())
    return " ".join(f"--device {folder}" for folder in folders)


def describe(facts: ConditionFacts) -> Description:
    """Which kind of container it is, and how it is given the cards."""
    about: UnreadableDriver = facts.finding.about
    fault = about.fault
    kind, cards = Evidence("container", fault.container or ""), Evidence("cards", fault.cards or 0)
    text = phrase("This container ({kind}) has no ", kind=kind)
    text += Clause(vendor_of_backend(fault.source).title)
    text += phrase(" GPU, although its host has {n}", n=cards)
    more = [*of_driver(fault), Evidence("devices_readable", about.others)]
    return Description(text, more, advice=f"{remedy(fault)}.")


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
    describe=describe,
    weight=18,
    kinds=(NOT_GIVEN,),
    promql="a container that was given no card has no metrics for one",
)  # fmt: skip
