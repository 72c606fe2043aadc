"""The process `gpu-check`: checks the one card that it sees, and reports in lines of JSON.

It is the only process that loads the driver's library. Its arguments are the UUID of the card and
the plan; a line on its standard input lets it use the link to the host, the end of it ends it.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from andon.checks.cuda import LEAST_DRIVER, TOO_OLD, UNCORRECTABLE, Cuda, CudaError, copy_to_peer
from andon.checks.measuring import CardWork
from andon.checks.rows import awake, remapped_rows
from andon.checks.rules.plan import CheckPlan, memory_to_test
from andon.units import MIB

PROHIBITED, EXCLUSIVE = 2, 3
PEER_BYTES, PEER_TIMES = 64 * MIB, 8
PEERS, LOAD = "peers", "load"


class CardRefused(Exception):
    """The card is not checked, or cannot be: a kind, and why."""


def emit(event: str, **values: Any) -> None:
    """Writes a line; the parent that is gone ends this process."""
    try:
        sys.stdout.write(json.dumps({"event": event, **values}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(1)


def main(arguments: Sequence[str]) -> int:
    """Checks the card, or measures from each visible card to each other."""
    try:
        if woken := awake(arguments[0]):
            os.environ["CUDA_VISIBLE_DEVICES"] = woken.get("uuid", "")
        cuda = Cuda()
        if arguments[0] == PEERS:
            return _peers(cuda, len(arguments) - 1)
        if arguments[0] == LOAD:
            return _load(cuda, arguments[1], float(arguments[2]))
        return _check(cuda, arguments[0], CheckPlan(**json.loads(arguments[1])), woken)
    except CardRefused as refusal:
        kind, text = refusal.args
        emit("failed", kind=kind, text=text, code=None)
    except CudaError as error:
        kind = "too_old" if error.code in TOO_OLD else "failed"
        kind = "uncorrectable" if error.code in UNCORRECTABLE else kind
        emit("failed", kind=kind, text=str(error), code=error.code)
    except OSError as error:
        emit("failed", kind="no_library", text=str(error), code=None)
    except AttributeError as error:  # a function that this driver does not have
        emit("failed", kind="too_old", text=str(error), code=None)
    return 1


def _check(cuda: Cuda, uuid: str, plan: CheckPlan, woken: Mapping[str, str]) -> int:
    uuid = woken.get("uuid", uuid)
    facts = _opened(cuda, uuid)
    free, total = cuda.memory()
    emit("card", free=free, total=total, **facts, **woken)
    emit("rows", **remapped_rows(uuid))
    integrated = bool(facts["integrated"])
    card = CardWork(cuda, facts, emit)
    card.fp32(plan.fp32_seconds)
    card.tensor(plan.tensor_seconds)
    card.memory(plan.memory_seconds, free // 4 if integrated else free)
    free, _ = cuda.memory()
    card.patterns(plan, memory_to_test(free, integrated, _available()))
    emit("wants_link")
    if not sys.stdin.readline():
        return 1
    card.link(plan.link_seconds)
    emit("rows", **remapped_rows(uuid))
    emit("done")
    return 0


def _load(cuda: Cuda, uuid: str, seconds: float) -> int:
    """Keeps the card busy with what draws most power."""
    facts = _opened(cuda, uuid)
    card = CardWork(cuda, facts, emit)
    card.tensor(seconds) if card.has_tensor else card.fp32(seconds)
    return 0


def _opened(cuda: Cuda, uuid: str) -> dict[str, int | None]:
    """Returns what the card is, with a context on it; CardRefused says why it is not checked."""
    version = cuda.number("cuDriverGetVersion")
    if version < LEAST_DRIVER:
        text = f"the driver is for CUDA {version // 1000}.{version % 100 // 10}"
        raise CardRefused("too_old", text)
    device = cuda.number("cuDeviceGet", 0)
    facts = cuda.attributes(device)
    if facts["compute_mode"] in (PROHIBITED, EXCLUSIVE):
        mode = "prohibited" if facts["compute_mode"] == PROHIBITED else "exclusive"
        raise CardRefused("refused", f"its compute mode is {mode}: nvidia-smi -c 0 changes that")
    if facts["mps"]:
        raise CardRefused(
            "refused", "MPS shares it between programs: what it measures is not its own"
        )
    seen = cuda.uuid(device)
    if not uuid.endswith(seen):
        raise CardRefused("refused", f"CUDA shows {seen} in its place")
    cuda.open()
    return facts


def _available() -> int | None:
    """Returns how much memory the host can spare."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = [line.split()[1] for line in text.splitlines() if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def _peers(cuda: Cuda, count: int) -> int:
    """Measures from each card to each other; in a process of its own, for it opens all."""
    contexts, memories = [], []
    for ordinal in range(count):
        cuda.open(ordinal)
        contexts.append(cuda.context)
        memories.append(cuda.allocate(PEER_BYTES))
    for first in range(count):
        cuda.call("cuCtxSetCurrent", contexts[first])
        for second in range(count):
            if first != second:
                _pair(cuda, contexts, memories, first, second)
    emit("done")
    return 0


def _pair(cuda: Cuda, contexts: list[Any], memories: list[Any], first: int, second: int) -> None:
    direct = bool(cuda.number("cuDeviceCanAccessPeer", first, second))
    if direct:
        cuda.call("cuCtxEnablePeerAccess", contexts[second], 0)
    content = bytes([first * 16 + second + 1]) * PEER_BYTES
    cuda.write(memories[first], content)
    spent = list[float]()
    to, at = memories[second].address, memories[first].address
    for _ in range(2):  # the first sets the path up
        with cuda.timed(spent):
            for _ in range(PEER_TIMES):
                copy_to_peer(cuda, to, contexts[second], at, contexts[first], PEER_BYTES)
    cuda.call("cuCtxSetCurrent", contexts[second])
    right = cuda.read(memories[second], PEER_BYTES) == content
    cuda.call("cuCtxSetCurrent", contexts[first])
    rate = PEER_BYTES * PEER_TIMES / spent[-1]
    emit("peer", source=first, target=second, value=rate, direct=direct, right=right)
