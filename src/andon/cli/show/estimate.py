"""An estimate as the text of `andon estimate`; pure."""

from collections.abc import Iterator, Sequence

from andon.cli.show import cells
from andon.cli.show.render import paragraph
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, known, styled, with_mark
from andon.estimate.rules.engines import TITLES
from andon.estimate.rules.estimating import Estimate, verdict_text
from andon.estimate.rules.fits import GpuFit, SmallestSize
from andon.estimate.rules.options import ServingEngine
from andon.estimate.rules.serving import GpuNeed, stored_as
from andon.estimate.rules.shape import FactSource
from andon.model.naming import short_model
from andon.units import and_more, counted, human_bytes

_LABEL = 13
_MOST_REASONS, _MOST_LABELS = 4, 8


def render_estimate(
    found: Estimate, understood: str | None, unreal: str | None, width: int
) -> list[Text]:
    """The answer first, then the numbers, the GPUs, and the command to type."""
    lines = paragraph(understood, width, "dim") if understood else []
    lines += with_mark(paragraph(_title(found), width, "bold"), unreal or "", width)
    lines += _answer(found, width)
    if found.need is not None or found.learned is not None:
        lines += _numbers(found)
    lines += _sizes(found, width)
    if found.fits:
        lines.append(styled(""))
        lines += draw(_columns(found), [TableRow(fit) for fit in found.fits], width)
        lines += _too_small(found.fits, width)
    for note in found.notes:
        lines += paragraph(f"note: {note}", width, "dim")
    if found.run is not None:
        lines += [styled(""), styled(found.run)]
        # A command is to be copied: it is not cut.
    return [line if line.plain == found.run else line.fit(width) for line in lines]


def _title(found: Estimate) -> str:
    facts = found.facts
    count = counted(found.world_size, "GPU")
    if facts.source is FactSource.RUNS:
        return f"{facts.name} on {count}"
    known = [stored_as(facts, found.options).label]
    if facts.parameters is not None:
        known.insert(0, f"{parameters_text(facts.parameters)} parameters")
    return f"{facts.name} ({', '.join(known)}), {TITLES[found.options.engine]} on {count}"


def parameters_text(count: int) -> str:
    """`8.03 B`, `596 M`, `65,536`."""
    for unit, size in (("B", 10**9), ("M", 10**6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:,}"


def _answer(found: Estimate, width: int) -> list[Text]:
    text = verdict_text(found)
    style = "bold green" if text.startswith("yes") else "bold yellow"
    lines = paragraph(text, width, style)
    refused = found.refused
    if refused is not None and refused.nearest:
        sizes = " or ".join(f"--{refused.option} {size}" for size in refused.nearest)
        lines.append(styled(f"the nearest that work: {sizes}"))
    return lines


def _numbers(found: Estimate) -> Iterator[Text]:
    rows: list[tuple[str, int | None, str]] = []
    if found.need is not None:
        rows = _estimated(found, found.need)
    learned = found.learned
    if learned is not None:
        runs = f"{counted(learned.runs, 'earlier run')} of this command"
        rows.append(("measured", learned.peak_bytes, f"{runs}; this counts"))
    yield styled("")
    if found.world_size > 1 and found.need is not None:
        yield styled(f"on each of the {found.world_size} GPUs:", "dim")
    for name, size, origin in rows:
        style = "bold" if name in ("minimum", "measured") else ""
        number = "unknown" if size is None else human_bytes(size)
        head = styled(name.ljust(_LABEL), "dim") + styled(number.rjust(10), style)
        yield head + styled(f"  {origin}" if origin else "", "dim")


def _estimated(found: Estimate, need: GpuNeed) -> list[tuple[str, int | None, str]]:
    """The parts of the estimate; those that depend on the model's shape are unknown without it."""
    trains, shaped = found.options.engine is ServingEngine.TRAINING, found.facts.shape is not None
    rows: list[tuple[str, int | None, str]] = [
        ("weights", need.weights_bytes, _origin(found, "weights"))
    ]
    if trains:
        rows += [
            ("gradients", need.gradients_bytes, ""),
            ("optimizer", need.optimizer_bytes, str(found.options.optimizer)),
        ]
    elif shaped:
        origin = f"{_requests(found)}; {found.sources['kv'].source}"
        rows.append(("KV cache", need.kv_bytes, origin))
    else:
        rows.append(("KV cache", None, "the model's shape is not known"))
    batch = f"{found.options.batch} x {need.context:,} tokens; "
    peak = batch + "the peak of a step" if trains else _origin(found, "activations")
    rows += [
        ("activations", need.activations_bytes, peak)
        if shaped
        else ("activations", None, "the model's shape is not known"),
        ("overhead", need.overhead_bytes, _overhead(found)),
        ("minimum", need.minimum_bytes, _minimum(trains, shaped)),
        ("comfortable", need.comfortable_bytes, "10 % to spare"),
    ]
    if found.claim_bytes is not None:
        origin = f"what the server takes of GPU {found.claimed_of} when it starts"
        rows.append(("claim", found.claim_bytes, origin))
    return rows


def _minimum(trains: bool, shaped: bool) -> str:
    if not shaped:
        return "without what is unknown"
    return "" if trains else "one request of full length"


def _overhead(found: Estimate) -> str:
    return "CUDA itself" if found.world_size == 1 else "CUDA, and the group's communication"


def _requests(found: Estimate) -> str:
    count = found.options.requests or 1
    tokens = 0 if found.need is None else found.need.context
    return f"{counted(count, 'request')} of {tokens:,} tokens"


def _origin(found: Estimate, name: str) -> str:
    one = found.sources[name]
    return f"{one.source} ({one.confidence} confidence)"


def _sizes(found: Estimate, width: int) -> list[Text]:
    if found.need is None and found.refused is None:
        return []  # it was measured as it is
    if not found.fits and found.smallest_empty is None and found.refused is None:
        return []
    now, empty = found.smallest_now, found.smallest_empty
    if now is None and empty is None:
        text = "no size fits on these GPUs, even when they are empty"
        return paragraph(text, width, "yellow") if found.fits else []
    if found.is_elsewhere:
        return paragraph(f"smallest that fits: {_smallest(empty)}", width)
    if now == empty or empty is None:
        return paragraph(f"smallest that fits now: {_smallest(now or empty)}", width)
    first = f"smallest that fits now: {_smallest(now)}" if now else "none fits now"
    return paragraph(f"{first}; when the GPUs are empty: {_smallest(empty)}", width)


def _smallest(found: SmallestSize | None) -> str:
    if found is None:
        return "none"
    count = counted(found.world_size, "GPU")
    each = " each" * (found.world_size != 1)
    return f"{count} (--{found.option} {found.size}, {human_bytes(found.minimum_bytes)}{each})"


def _columns(found: Estimate) -> tuple[TableColumn[GpuFit], ...]:
    served = any(fit.requests_at_once is not None for fit in found.fits)
    at_once: TableColumn[GpuFit] = TableColumn(
        "AT ONCE", lambda fit: known(fit.requests_at_once, "{:,}".format), rank=2, right=True
    )
    local: tuple[TableColumn[GpuFit], ...] = (
        TableColumn("NOW", lambda fit: _yes(fit.fits_now)),
        TableColumn("EMPTY", lambda fit: _yes(fit.fits_empty)),
        TableColumn("FREE GiB", lambda fit: styled(cells.gib(fit.free_bytes)), rank=1, right=True),
    )
    elsewhere: tuple[TableColumn[GpuFit], ...] = (
        TableColumn("FITS", lambda fit: _yes(fit.fits_empty)),
        TableColumn("HAS GiB", lambda fit: styled(cells.gib(fit.total_bytes)), rank=1, right=True),
    )
    return (
        TableColumn("GPU", lambda fit: styled(fit.label, "bold")),
        TableColumn("MODEL", lambda fit: styled(short_model(fit.name)), rank=2, elastic=6),
        *(elsewhere if found.is_elsewhere else local),
        TableColumn(
            "NEEDS GiB", lambda fit: styled(cells.gib(fit.needed_bytes)), rank=1, right=True
        ),
        *((at_once,) if served else ()),
        TableColumn("WHY NOT", _why_not, rank=1, elastic=12),
    )


def _why_not(fit: GpuFit) -> Text:
    return styled("too small" if fit.fits_empty is False else fit.reason or "")


def _too_small(fits: Sequence[GpuFit], width: int) -> Iterator[Text]:
    """Yields why GPUs are too small even when empty; each reason once."""
    labels: dict[str, list[str]] = {}
    for fit in fits:
        if fit.fits_empty is False and fit.reason:
            labels.setdefault(fit.reason, []).append(fit.label)
    for reason, those in list(labels.items())[:_MOST_REASONS]:
        more = and_more(len(those) - _MOST_LABELS)
        yield from paragraph(f"GPU {', '.join(those[:_MOST_LABELS])}{more}: {reason}", width)


def _yes(value: bool | None) -> Text:
    if value is None:
        return known(None)
    return styled("yes", "green") if value else styled("no", "yellow")
