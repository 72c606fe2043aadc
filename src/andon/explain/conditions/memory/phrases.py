"""What the explanations of memory share: how full it is, and who holds it without using it."""

from andon.explain.evidence.measures import memory_percent, process_idle_seconds
from andon.explain.evidence.phrasing import CERTAIN, LIKELY, POSSIBLE
from andon.explain.evidence.view import View
from andon.model.device import Process
from andon.units import GIB

HOARD_BYTES = GIB
HOARD_SHARE = 0.2  # if there is memory left, only a large share is worth reporting
HOARD_FULL_SHARE = 0.05
LONG_SECONDS, SOME_SECONDS = 300.0, 30.0
SERVERS = (
    "vllm", "sglang", "tritonserver", "text-generation", "ollama", "llama-server", "lmdeploy",
    "trtllm", "torchserve",
)  # fmt: skip


def is_full(view: View) -> bool:
    share = memory_percent(view)
    return share is not None and share >= view.figures.memory_percent


def hoarder(view: View) -> Process | None:
    """The largest idle process that holds memory which others could use."""
    return view.holder([process for process in view.compute if _hoards(view, process)])


def serves(process: Process) -> bool:
    """Whether it is a known server, which waits for requests by design."""
    text = f"{process.name or ''} {process.command or ''}".lower()
    return any(name in text for name in SERVERS)


def idle_confidence(seconds: float | None) -> float:
    """How certain it is that something idle for this long is not merely pausing."""
    if seconds is None or seconds < SOME_SECONDS:
        return POSSIBLE
    return CERTAIN if seconds >= LONG_SECONDS else LIKELY


def _hoards(view: View, process: Process) -> bool:
    total = view.device.memory_total_bytes or 0
    share = HOARD_FULL_SHARE if is_full(view) else HOARD_SHARE
    large = (process.memory_bytes or 0) >= max(HOARD_BYTES, share * total)
    lasted = process_idle_seconds(view, process)
    if lasted is None or not large or serves(process):
        return False
    # A device that is briefly idle as a whole is held at most: no one else needs the memory.
    return view.works or lasted >= LONG_SECONDS
