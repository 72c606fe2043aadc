"""At a prompt a snapshot is a line, and so is each of its large parts."""

from msgspec.structs import replace

from andon.model.device import Host, Sample, Snapshot, State
from tests.support.rows import rows
from tests.support.snapshots import farm, h200, no_gpu, silent, simulated, work

LONGEST = 160


@rows(
    "value, words",
    [
        (farm(), ("<Snapshot of node17 at 2025-11-15T01:41:07", "lost", "asleep")),
        (no_gpu(), ("no device", "1 fault")),
        (simulated(), ("SIMULATED>",)),
        (replace(farm(), devices=tuple(h200(n) for n in range(512))), ("512 ok",)),
        (replace(h200(2), processes=(work(1, "a", "b", 1.0),)),
         ("<DeviceStatus 2: NVIDIA H200, ok, 0 %, 0 B used, 34 °C, 76 W, 1 process>",)),
        (silent(3, State.LOST, "it has fallen off the bus", None, 5), ("lost (it has fallen",)),
        (h200(2).device, ("<Device 2: NVIDIA H200, GPU-",)),
        (h200(2).sample, ("<Sample at ", "34 °C")),
        (Sample(0.0), ("no readings",)),
        (farm().host, ("<Host CPU 12 %",)),
        (Host(), ("unknown",)),
        (Snapshot("n", 0.0), ("<Snapshot of n at 1970-01-01T00:00:00.000Z: no device>",)),
    ],
)  # fmt: skip
def test_a_large_value_is_a_short_line(value: object, words: tuple[str, ...]) -> None:
    text = repr(value)
    assert len(text) <= LONGEST, text
    for word in words:
        assert word in text, text
        assert "1 faults" not in text
