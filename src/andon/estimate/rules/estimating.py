"""The whole estimate: what a model needs, where it fits, and the command to type."""

import shlex
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.estimate.rules.engines import (
    TITLES,
    SizeRefusal,
    refusal,
    unused_sizes,
    world_size,
)
from andon.estimate.rules.fits import (
    GpuCapacity,
    GpuFit,
    SmallestSize,
    fit_of,
    is_balanced,
    measured_fit,
    need_of_model,
    smallest_size,
    together,
)
from andon.estimate.rules.gpu_sizes import GPU_MIB, USUAL, capacity_named
from andon.estimate.rules.learned import LearnedPeak
from andon.estimate.rules.options import EstimateOptions, ServingEngine
from andon.estimate.rules.serving import GpuNeed, stored_as
from andon.estimate.rules.shape import EstimateConfidence, FactSource, ModelFacts
from andon.units import GIB, MIB, counted, human_bytes, shell_line


class FigureSource(Struct, frozen=True):
    """Where one number comes from, and how sure it is."""

    source: FactSource
    confidence: EstimateConfidence


class Estimate(Struct, frozen=True):
    """What a model needs and where it fits. A refused size has no numbers."""

    facts: ModelFacts
    options: EstimateOptions
    world_size: int
    need: GpuNeed | None
    refused: SizeRefusal | None = None
    fits: tuple[GpuFit, ...] = ()
    smallest_now: SmallestSize | None = None
    smallest_empty: SmallestSize | None = None
    learned: LearnedPeak | None = None
    claim_bytes: int | None = None  # of the smallest GPU that was chosen
    claimed_of: str | None = None  # its label
    run: str | None = None  # the command to type
    is_elsewhere: bool = False  # its GPUs are not this machine's
    notes: tuple[str, ...] = ()

    @property
    def fits_now(self) -> bool | None:
        """Whether enough GPUs are available; None if none is known."""
        return self._fits(now=True)

    @property
    def fits_empty(self) -> bool | None:
        return self._fits(now=False)

    def _fits(self, *, now: bool) -> bool | None:
        if not self.fits:
            return None
        return bool(together(self.fits, self.world_size, now=now))

    @property
    def sources(self) -> dict[str, FigureSource]:
        """Returns the source of each number."""
        facts = self.facts
        formula = FigureSource(FactSource.FORMULA, EstimateConfidence.MEDIUM)
        shape = FigureSource(
            FactSource.CONFIG if facts.source in _FILES else facts.source,
            EstimateConfidence.LOW
            if facts.shape is None or facts.source is FactSource.NAME
            else EstimateConfidence.MEDIUM,
        )
        found = {
            "weights": FigureSource(facts.source, facts.confidence),
            "kv": shape,
            "activations": formula if facts.shape else shape,
            "overhead": formula,
        }
        if self.learned is not None:
            found["peak"] = FigureSource(FactSource.RUNS, EstimateConfidence.HIGH)
        return found


MOST_EXAMPLES = 16
_FILES = (FactSource.SAFETENSORS, FactSource.INDEX)


def estimate(
    facts: ModelFacts,
    options: EstimateOptions,
    capacities: Sequence[GpuCapacity] = (),
    learned: LearnedPeak | None = None,
    command: Sequence[str] = (),
    *,
    is_elsewhere: bool = False,
) -> Estimate:
    """Returns everything about one model, one way to run it, and the GPUs of one node, or of
    none."""
    stored = stored_as(facts, options)
    refused = refusal(facts.shape, stored, options)
    smallest = [smallest_size(facts, options, capacities, now=now) for now in (True, False)]
    notes = [
        f"{TITLES[options.engine]} has no {name} size; it is not used"
        for name in unused_sizes(options)
    ]
    found = Estimate(
        facts, options, world_size(options), None, refused, (), smallest[0], smallest[1], learned,
        is_elsewhere=is_elsewhere,
    )  # fmt: skip
    if refused is not None:
        return replace(found, notes=(*facts.notes, *notes))
    need = need_of_model(facts, options)
    fits = tuple(fit_of(capacity, need, options, learned) for capacity in capacities)
    found = replace(found, need=need, fits=fits)
    if not capacities:
        notes.append(_examples(facts, options))
    chosen = _chosen(found)
    claims = [(fit.claim_bytes, fit.label) for fit in chosen if fit.claim_bytes is not None]
    least = min(claims, default=(None, None), key=lambda one: one[0])
    return replace(
        found,
        claim_bytes=least[0],
        claimed_of=least[1],
        run=run_line(found, chosen, command),
        notes=(*facts.notes, *need.assumed, *notes),
    )


def _examples(facts: ModelFacts, options: EstimateOptions) -> str:
    """Returns on how many of some common GPUs the model would fit."""
    examples = []
    for name in USUAL:
        capacities = [
            capacity_named(name, GPU_MIB[name] * MIB, number) for number in range(MOST_EXAMPLES)
        ]
        size = smallest_size(facts, options, capacities, now=False)
        if size is not None:
            how = f" (--{size.option} {size.size})" if size.size > 1 else ""
            examples.append(f"{size.world_size} x {name}{how}")
    fits = f"it would fit on {', '.join(examples)}; " if examples else ""
    return f"{fits}GPUs that are not here: --on-gpus 4xH100"


def measured(
    learned: LearnedPeak, capacities: Sequence[GpuCapacity], command: Sequence[str]
) -> Estimate:
    """Returns the estimate from earlier runs, for a command that starts no known server."""
    facts = ModelFacts(shlex.join(command), FactSource.RUNS, EstimateConfidence.HIGH)
    options = EstimateOptions(ServingEngine.TRAINING)
    fits = tuple(
        measured_fit(capacity, learned.peak_on(capacity.name, False) or learned.peak_bytes)
        for capacity in capacities
    )
    found = Estimate(facts, options, learned.devices, None, None, fits, learned=learned)
    return replace(found, run=run_line(found, _chosen(found), command))


def _chosen(found: Estimate) -> tuple[GpuFit, ...]:
    """Returns the GPUs that it would run on: available ones, else those large enough when empty."""
    count = found.world_size
    return together(found.fits, count, now=True) or together(found.fits, count, now=False)


def run_line(found: Estimate, chosen: Sequence[GpuFit], command: Sequence[str]) -> str | None:
    """Returns the command to type; None if the model fits on no GPU or none is known. Its memory
    request is what the smallest of the GPUs must have."""
    if not chosen and (found.fits or found.learned is None):
        return None
    capacities = [(fit.free_bytes if fit.fits_now else fit.total_bytes) or 0 for fit in chosen]
    least = min(capacities, default=None)
    requested = min((_requested_bytes(found, fit) for fit in chosen), default=0)
    if not chosen and found.learned is not None:
        requested = found.learned.peak_bytes
    arguments = [
        "andon",
        "run",
        "--gpus",
        str(found.world_size),
        "--memory",
        _size(requested, least),
    ]
    if not is_balanced(chosen):
        arguments.append("--unbalanced")
    started = list(command or _command(found))
    if "=" in started[0]:  # variables are the shell's; a program sets them with env
        started.insert(0, "env")
    return shell_line(*arguments, "--", *started)


def _requested_bytes(found: Estimate, fit: GpuFit) -> int:
    """Returns how much memory this GPU must have free: a server's share, a learned peak, else
    the comfortable size as far as the GPU has it."""
    if fit.claim_bytes is not None or found.learned is not None or found.need is None:
        return fit.needed_bytes
    capacity = fit.free_bytes if fit.fits_now else fit.total_bytes
    comfortable = found.need.comfortable_bytes
    return comfortable if capacity is None or comfortable <= capacity else fit.needed_bytes


def _size(count: int, most: int | None) -> str:
    """Formats a size: MiB below 10 GiB, GiB with one digit above; rounded up, unless that is
    more than there is."""
    unit, word = (MIB, "MiB") if count < 10 * GIB else (GIB / 10, "GiB")
    rounded = -int(-count // unit)
    if most is not None and rounded * unit > most:
        rounded = int(count // unit)
    return f"{rounded}MiB" if word == "MiB" else f"{rounded / 10:.1f}GiB"


def _command(found: Estimate) -> list[str]:
    """Returns the command that starts the engine with these sizes."""
    options, model = found.options, found.facts.where or found.facts.name
    match options.engine:
        case ServingEngine.VLLM:
            arguments = ["vllm", "serve", model]
            names = {"tp": "--tensor-parallel-size", "pp": "--pipeline-parallel-size",
                     "dp": "--data-parallel-size", "context": "--max-model-len"}  # fmt: skip
        case ServingEngine.SGLANG:
            arguments = ["python", "-m", "sglang.launch_server", "--model-path", model]
            names = {"tp": "--tp-size", "pp": "--pp-size", "dp": "--dp-size",
                     "context": "--context-length"}  # fmt: skip
        case ServingEngine.TRTLLM:
            arguments = ["trtllm-serve", model]
            names = {"tp": "--tp_size", "pp": "--pp_size", "context": "--max_seq_len"}
        case ServingEngine.TRAINING if found.world_size > 1:
            return ["torchrun", f"--nproc-per-node={found.world_size}", "train.py"]
        case ServingEngine.TRAINING:
            return ["python", "train.py"]
        case _:
            return ["python", "serve.py"]
    for name, option in names.items():
        value = getattr(options, name)
        if value is not None and (value > 1 or name == "context"):
            arguments += [option, str(value)]
    return arguments


def verdict_text(found: Estimate) -> str:
    """Returns the answer in one sentence."""
    count = counted(found.world_size, "GPU")
    if found.refused is not None:
        title = TITLES[found.options.engine]
        return f"no: {title} does not start with these sizes: {found.refused.reason}"
    each = "on one GPU" if found.world_size == 1 else f"on each of {count}"
    least = min((fit.needed_bytes for fit in found.fits), default=0)
    if found.need is not None and found.learned is None:
        least = found.need.minimum_bytes
    elif found.learned is not None and not found.fits:
        least = found.learned.peak_bytes
    if not found.fits:
        return f"needs {human_bytes(least)} {each}; no GPU is known here to compare with"
    now, empty = (together(found.fits, found.world_size, now=one) for one in (True, False))
    few = _only_some(found, now or empty)
    if now and found.is_elsewhere:
        return f"yes: it fits on {_kinds(now)}{few}"
    if now:
        return f"yes: it fits on {count} now: GPU {', '.join(fit.label for fit in now)}{few}"
    if empty:
        them = "they" if found.world_size > 1 else "one"
        return f"not now: it needs {count}, and would fit if {them} were empty{few}"
    other = found.smallest_empty
    would = "" if other is None else f"; --{other.option} {other.size} would fit"
    return f"no: it needs {human_bytes(least)} {each}{would}"


def _only_some(found: Estimate, chosen: Sequence[GpuFit]) -> str:
    """Returns how many of the requested requests fit at once, if not all do."""
    wanted = found.options.requests
    known = [fit.requests_at_once for fit in chosen if fit.requests_at_once is not None]
    if wanted is None or not known or min(known) >= wanted or found.need is None:
        return ""
    tokens = f"{found.need.context:,} tokens"
    return f", but only {min(known)} of {wanted} requests of {tokens} at once"


def _kinds(fits: Sequence[GpuFit]) -> str:
    """Returns the GPUs by model: `2 x H100, 1 x L4`."""
    names = Counter(fit.name for fit in fits)
    return ", ".join(f"{count} x {name}" for name, count in names.items())
