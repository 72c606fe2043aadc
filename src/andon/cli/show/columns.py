"""The columns of the device table: those always shown, and those for wide terminals."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from andon.cli.show import cells
from andon.cli.show.entries import CUDA, NamedDevice, model_name, runtime_of
from andon.cli.show.table import TableColumn, TableRow
from andon.cli.show.text import MEDIUM, WIDE, Text, percent, styled
from andon.model.device import Sample, State

FIELDS = (
    "utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts", "fan_percent",
    "sm_clock_mhz", "memory_clock_mhz", "throttle", "encoder_percent", "decoder_percent",
    "pcie_generation", "processes",
)  # fmt: skip
"""The readings that the table may show."""

_WIDE_ONLY = ("memory_clock_mhz", "encoder_percent", "decoder_percent", "pcie_generation")
_SECOND = ("sm_active_percent", "pcie_sent_bytes_per_second", "nvlink_sent_bytes_per_second")


def explained_fields(width: int) -> set[str]:
    """The readings that get a footnote at this width if they are missing."""
    return {field for field in FIELDS if width >= WIDE or field not in _WIDE_ONLY}


class Shape(Struct, frozen=True):
    """How much detail each cell has at one width."""

    bar: int
    percent: bool
    detail: int
    who: int
    index: str  # format of the index in this process's own numbering

    @classmethod
    def at(cls, width: int) -> "Shape":
        if width < 72:
            return cls(0, False, 0, 6, " cuda:{}")
        if width < MEDIUM:
            return cls(6, False, 0, 8, " cuda:{}")
        if width < WIDE:
            return cls(6, False, 1, 18, " (cuda:{} here)")
        return cls(10, True, 2, 36, " (cuda:{} here)")


def device_columns(
    seen: Sequence[NamedDevice], width: int, masked: bool, once: bool = False
) -> list[TableColumn[NamedDevice]]:
    """Returns the columns for which these devices have values; which of them fit is decided
    later.

    `once`: leaves out columns that need a second reading, even if a server has them.
    """
    shape, left_out = Shape.at(width), _SECOND if once else ()
    return [
        *_lead(shape, masked, brief=width < WIDE),
        *_values(shape, _digits(seen)),
        *(
            column
            for column, field in _extras(width)
            if width >= MEDIUM and field not in left_out and _known(seen, field)
        ),
        TableColumn("WHO", lambda e: cells.who(e, shape.detail), rank=6, elastic=shape.who),
    ]


def device_row(entry: NamedDevice, message: Text | None) -> TableRow[NamedDevice]:
    hidden = not entry.status.visible and entry.status.state is State.OK
    return TableRow(entry, message, style="dim" if hidden else None)


def label(entry: NamedDevice, masked: bool, index: str = " (cuda:{} here)") -> str:
    """`5 (cuda:0 here)` if this process has another index for it, `(5)` if it is hidden."""
    if not masked:
        return entry.label
    if not entry.status.visible:
        return f"({entry.label})"
    number, runtime = entry.status.cuda_index, runtime_of(entry.status.device.vendor)
    return entry.label + ("" if number is None else index.format(number).replace(CUDA, runtime))


def _lead(shape: Shape, masked: bool, brief: bool) -> list[TableColumn[NamedDevice]]:
    return [
        TableColumn("", cells.lamp, lead=True),
        TableColumn("GPU", lambda e: styled(label(e, masked, shape.index), "bold"),
                    lead=True, gap=1),
        TableColumn("MODEL", lambda e: styled(model_name(e, brief)), rank=4,
                    elastic=9 if brief else 14, lead=True),
    ]  # fmt: skip


def _values(shape: Shape, digits: int) -> list[TableColumn[NamedDevice]]:
    def memory(entry: NamedDevice, more: int = 0) -> Text:
        return cells.memory(entry, shape.bar + more, shape.percent, digits)

    def load(entry: NamedDevice, more: int = 0) -> Text:
        return cells.utilization(entry, shape.bar + more)

    return [
        TableColumn(" UTIL", load, rank=1, grown=load),
        TableColumn("MEMORY GiB".rjust(digits), memory, rank=2, grown=memory),
        TableColumn("TEMP", cells.temperature, rank=3, right=True),
        TableColumn("POWER", cells.power, rank=5, right=True),
    ]


def _extras(width: int) -> list[tuple[TableColumn[NamedDevice], str]]:
    """The extra columns of a wider terminal, each with the reading it needs."""
    return [
        (_plain("FAN", "fan_percent", 12, percent), "fan_percent"),
        (_plain("SM MHz", "sm_clock_mhz", 11, cells.number), "sm_clock_mhz"),
        (_plain("MEM MHz", "memory_clock_mhz", 14, cells.number), "memory_clock_mhz"),
        (_plain("ENC", "encoder_percent", 15, percent), "encoder_percent"),
        (_plain("DEC", "decoder_percent", 15, percent), "decoder_percent"),
        (TableColumn("PCIe", cells.link, rank=13, right=True), "pcie_generation"),
        (_plain("SM ACT", "sm_active_percent", 16, percent), "sm_active_percent"),
        (_link("PCIe B/s", "pcie", 17), "pcie_sent_bytes_per_second"),
        (_link("NVLink B/s", "nvlink", 18), "nvlink_sent_bytes_per_second"),
        (TableColumn("THROTTLE", lambda e: cells.throttle(e, width >= WIDE), rank=10), "throttle"),
    ]


def _plain(
    title: str, field: str, rank: int, show: Callable[[float | None], Text]
) -> TableColumn[NamedDevice]:
    def cell(entry: NamedDevice) -> Text:
        return show(getattr(entry.status.sample, field, None))

    return TableColumn(title, cell, rank=rank, right=True)


def _link(title: str, link: str, rank: int) -> TableColumn[NamedDevice]:
    return TableColumn(title, lambda e: cells.traffic(e, link), rank=rank, right=True)


def _known(seen: Sequence[NamedDevice], field: str) -> bool:
    samples: list[Sample] = [e.status.sample for e in seen if e.status.answered and e.status.sample]
    return any(getattr(sample, field) is not None for sample in samples)


def _digits(seen: Sequence[NamedDevice]) -> int:
    """The width of the widest `61.2/79.6` here, so that the bars line up."""
    samples = [(e.status.sample, e.status.device) for e in seen if e.status.answered]
    sizes = [
        f"{cells.gib(sample.memory_used_bytes)}/{cells.gib(device.memory_total_bytes)}"
        for sample, device in samples
        if sample is not None
    ]
    return max([7, *map(len, sizes)])
