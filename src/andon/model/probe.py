"""A probe: trials of one command with different sizes, the largest size that fits, and its JSON."""

from enum import StrEnum

from msgspec import Struct, field

from andon.model.codec import Amount, JsonDocument, Name, Number, Percent, Text, Texts, Time, Whole

PROBES_SCHEMA = "andon.probes/1"


class TrialState(StrEnum):
    """How a trial ended."""

    FITS = "fits"
    DEVICE_OUT_OF_MEMORY = "device_out_of_memory"
    HOST_OUT_OF_MEMORY = "host_out_of_memory"  # the kernel's OOM killer: not the GPU's memory
    FAILED = "failed"  # for another reason: whether the size fits is unknown
    HUNG = "hung"
    STOPPED = "stopped"  # by a person, or by the end of the lease

    @property
    def decides(self) -> bool:
        """Whether the outcome depends on the size."""
        return self in (self.FITS, self.DEVICE_OUT_OF_MEMORY, self.HOST_OUT_OF_MEMORY)


class Trial(Struct, frozen=True):
    """One attempt at one size. None means unknown; the reason is in `missing`."""

    size: Whole
    state: TrialState
    seconds: Amount
    message: Text
    peak_memory_bytes: Whole | None = None  # of the fullest device, as sampled
    utilization_percent: Number | None = None  # mean over the trial, of all its devices
    energy_joules: Number | None = None  # of all its devices
    energy_source: Name | None = None
    throughput: Number | None = None  # what the command itself reported
    samples: Whole = 0
    missing: Texts = field(default_factory=dict)
    note: Text | None = None  # what makes its numbers less certain


class MemoryLine(Struct, frozen=True):
    """Memory as a straight line over the size."""

    fixed_bytes: Number
    bytes_per_unit: Number
    trials: Whole


class ProbeResult(JsonDocument, frozen=True):
    """A probe's stored result: one for each device model, number of devices and command."""

    schema = "andon.probe/1"
    name: Name
    command: Text  # without secrets, with {n} where the size stands
    model: Name  # of the devices
    devices: Whole
    at: Time
    node: Name
    low: Whole
    high: Whole
    margin_percent: Percent
    trials: tuple[Trial, ...]
    largest: Whole | None = None
    too_large: Whole | None = None  # the smallest size that was tried and does not fit
    recommended: Whole | None = None
    line: MemoryLine | None = None
    line_reason: Text | None = None  # why there is none
    memory_total_bytes: Whole | None = None
    simulated: bool = False
    complete: bool = False  # whether the search came to its end

    def __str__(self) -> str:
        """Returns a summary, because `print` of all trials would fill a page."""
        if self.largest is None:
            return f"{self.name} on {self.model}: no size fits"
        above = "" if self.too_large is None else f" ({self.too_large} does not)"
        return (
            f"{self.name} on {self.model}: {self.largest} fits{above}, "
            f"recommended {self.recommended} ({self.margin_percent:g} % less)"
        )
