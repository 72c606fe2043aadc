"""Explains memory: who holds it, idle holders, leaks, unattributed memory, and errors."""

from andon.core.conditions.unattributed import unattributed_bytes
from andon.core.explain.growth import growth
from andon.core.explain.measures import (
    ecc_rise,
    graphics_memory_bytes,
    measured,
    memory_percent,
    memory_unattributed_bytes,
    process_idle_seconds,
)
from andon.core.explain.phrasing import CERTAIN, LIKELY, POSSIBLE, Clause, conclude, say
from andon.core.explain.reasons import Evidence, Reason, ReasonCode
from andon.core.explain.view import View, after_colon, part_of_whole
from andon.model.device import Process
from andon.model.vendors import vendor_of
from andon.units import GIB, MIB

HOARD_BYTES = GIB
HOARD_SHARE = 0.2  # if there is memory left, only a large share is worth reporting
HOARD_FULL_SHARE = 0.05
DESKTOP_BYTES = 128 * MIB
DESKTOP_SHARE, DESKTOP_MUCH = 0.1, 0.25
TIGHT_BYTES = GIB  # less than this may not be enough for another allocation
SERVERS = (
    "vllm", "sglang", "tritonserver", "text-generation", "ollama", "llama-server", "lmdeploy",
    "trtllm", "torchserve",
)  # fmt: skip
SOON_SECONDS = 3600.0
LONG_SECONDS = 300.0
SOME_SECONDS = 30.0


def memory_full(view: View) -> Reason | None:
    """Nearly full, held by busy processes: normal, and the answer to "who holds it?"."""
    if not _is_full(view) or idle_memory(view) or _mostly_unexplained(view):
        return None
    holder = view.holder(view.processes)
    sentence = say("Memory is {share} full", share=measured(view, memory_percent))
    sentence = sentence + after_colon(part_of_whole(view, "memory_used_bytes", view.total()))
    more: list[Evidence | None] = [view.read("memory_free_bytes"), *view.who(holder)]
    if holder is not None:
        held = view.of_process(holder, "memory_bytes")
        sentence = sentence + Clause("; ") + view.naming(holder) + say(" holds {held}", held=held)
    advice = "Nothing to do if intended: training and inference servers fill memory by design."
    if _is_tight(view):
        advice = "The next allocation may fail; a smaller batch or cache leaves room."
    return conclude(
        ReasonCode.MEMORY_FULL, CERTAIN, sentence, more, holder, advice, mild=not _is_tight(view)
    )


def idle_memory(view: View) -> Reason | None:
    """An idle process holds memory that others could use."""
    process = view.holder([p for p in view.compute if _hoards(view, p)])
    if process is None:
        return None
    lasted = process_idle_seconds(view, process)
    held = view.of_process(process, "memory_bytes")
    sentence = Clause("Idle process holds memory: ") + view.naming(process)
    sentence = sentence + say(" holds {held}", held=held)
    seconds = view.derived("process.idle_seconds", lasted)
    sentence = sentence + (
        say(" and has been idle for {s}", s=seconds) if lasted else Clause(" and is idle")
    )
    share, roomy = measured(view, memory_percent), not _is_full(view)
    sentence = sentence + say("; memory is {share} full", share=None if roomy else share)
    more = [share, view.read("utilization_percent"), *view.who(process)]
    advice = "Ask its owner whether it is still needed; stopping it frees the memory."
    if process.user is None and process.name is None:
        advice = f"It is not visible here: it crashed, or is in another container. {_open(view)}"
    return conclude(
        ReasonCode.IDLE_MEMORY, _confidence(lasted), sentence, more, process, advice, mild=roomy
    )


def unattributed_memory(view: View) -> Reason | None:
    """Memory in use by no visible process."""
    spare = unattributed_bytes(view.status, bool(view.instances))
    if not spare:
        return None
    sentence = say(
        "{spare} of the {used} in use is not accounted for by any visible process",
        spare=measured(view, memory_unattributed_bytes),
        used=view.read("memory_used_bytes"),
    )
    dead = _exited(view, spare)
    if dead is not None:
        held = view.of_process(dead, "memory_bytes")
        sentence = (
            sentence
            + Clause("; ")
            + view.naming(dead)
            + say(" held {held} and has exited", held=held)
        )
    more = [view.derived("processes", len(view.processes)), *view.who(dead)]
    advice = (
        f"Perhaps one that crashed, is in another container, or is hidden from you. {_open(view)}"
    )
    return conclude(
        ReasonCode.UNATTRIBUTED_MEMORY, CERTAIN if dead else LIKELY, sentence, more, dead, advice
    )


def memory_leak(view: View) -> Reason | None:
    """Memory rises steadily over at least a minute."""
    found = growth(view)
    if found is None or not view.owns_memory:
        return None
    sentence = say(
        "Memory grows steadily: by {rise} in {seconds}",
        rise=view.derived("memory_rise_bytes", found.rise_bytes),
        seconds=view.derived("memory_rise_seconds", found.seconds),
    )
    left = view.derived("full_in_seconds", found.full_in_seconds)
    sentence = sentence + say("; full in {left} at this rate", left=left)
    rate = view.derived("memory_growth_bytes_per_second", found.bytes_per_second)
    more = [rate, view.read("memory_used_bytes"), view.read("memory_free_bytes")]
    soon = found.full_in_seconds is not None and found.full_in_seconds <= SOON_SECONDS
    confidence = LIKELY if found.seconds >= LONG_SECONDS else POSSIBLE
    advice = "Save the work before memory runs out, and check what is kept at each step."
    process = found.process
    return conclude(
        ReasonCode.MEMORY_LEAK,
        confidence,
        sentence,
        [*more, *view.who(process)],
        process,
        advice,
        mild=not soon,
    )


def graphics(view: View) -> Reason | None:
    """A desktop uses memory; a problem if little is left."""
    held = graphics_memory_bytes(view)
    if held is None or held < DESKTOP_BYTES:
        return None
    sentence = say(
        "A desktop uses {held} of its memory", held=measured(view, graphics_memory_bytes)
    )
    total = view.status.device.memory_total_bytes
    share = 0.0 if not total else held / total
    much = share >= DESKTOP_MUCH or (_is_full(view) and share >= DESKTOP_SHARE)
    process = view.holder(view.graphics)
    more = [view.total(), *view.who(process)]
    advice = "Nothing to do unless memory is short; then log out of the desktop, or move it."
    return conclude(ReasonCode.GRAPHICS, CERTAIN, sentence, more, process, advice, mild=not much)


def ecc(view: View) -> Reason | None:
    """The memory returned wrong data that could not be corrected."""
    if not view.at_least("ecc_uncorrected", 1):
        return None
    count = view.read("ecc_uncorrected")
    sentence = say("Uncorrectable memory errors: {n}", n=count)
    sentence = sentence + Clause(" since the driver was loaded")
    rise = view.derived("ecc_rise", ecc_rise(view) or None)
    sentence = sentence + say(", {rise} of them while sampling", rise=rise)
    advice = (
        "Results since then may be wrong. Check sudo dmesg | grep -i xid, then reset it or reboot; "
        "if the errors return, have the card replaced."
    )
    return conclude(ReasonCode.ECC, CERTAIN, sentence, advice=advice)


def _open(view: View) -> str:
    """How to find who has the device open, whatever the driver lists."""
    files = vendor_of(view.status.device.vendor).device_files
    return f"To find out: sudo fuser -v {files}"


def _is_full(view: View) -> bool:
    share = memory_percent(view)
    return share is not None and share >= view.figures.memory_percent


def _is_tight(view: View) -> bool:
    free, used = view.sample.memory_free_bytes, view.sample.memory_used_bytes
    if free is None and used is not None:
        total = view.status.device.memory_total_bytes
        free = None if total is None else total - used
    return free is not None and free < TIGHT_BYTES


def _hoards(view: View, process: Process) -> bool:
    total = view.status.device.memory_total_bytes or 0
    share = HOARD_FULL_SHARE if _is_full(view) else HOARD_SHARE
    large = (process.memory_bytes or 0) >= max(HOARD_BYTES, share * total)
    lasted = process_idle_seconds(view, process)
    if lasted is None or not large or serves(process):
        return False
    # A device that is briefly idle as a whole is IDLE_HELD at most: no one else needs the memory.
    return view.works or lasted >= LONG_SECONDS


def serves(process: Process) -> bool:
    """Whether it is a known server, which waits for requests by design."""
    text = f"{process.name or ''} {process.command or ''}".lower()
    return any(name in text for name in SERVERS)


def _confidence(idle_seconds: float | None) -> float:
    if idle_seconds is None or idle_seconds < SOME_SECONDS:
        return POSSIBLE
    return CERTAIN if idle_seconds >= LONG_SECONDS else LIKELY


def _mostly_unexplained(view: View) -> bool:
    used, spare = view.sample.memory_used_bytes, memory_unattributed_bytes(view)
    return unattributed_memory(view) is not None and (spare or 0) > (used or 0) / 2


def _exited(view: View, spare: int) -> Process | None:
    """A process that exited and held about as much as is now unattributed."""
    here = {(p.pid, p.started) for p in view.processes}
    seen = [p for status in view.past for p in status.processes]
    exited = [p for p in seen if (p.pid, p.started) not in here and p.memory_bytes is not None]
    near = [p for p in exited if 0.5 * spare <= (p.memory_bytes or 0) <= 1.5 * spare]
    return near[-1] if near else None
