"""PCIe and NVLink traffic over the stand-in: rates of counters that wrap, fail and are missing."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from andon.drivers.nvidia import Nvidia, nvml
from andon.drivers.nvidia.nvml import LinkCount, LinkField
from andon.drivers.nvidia.traffic import NO_MOMENT, NOT_YET, Traffic
from andon.host.rules.rates import FIRST, STARTED_AGAIN, WRAPPED
from andon.model.device import Reading
from tests.standin import StandIn, StandInMig, error, not_supported
from tests.support.clocks import Clock
from tests.support.counting import python_calls

PCIE = ("pcie_received_bytes_per_second", "pcie_sent_bytes_per_second")
NVLINK = ("nvlink_received_bytes_per_second", "nvlink_sent_bytes_per_second")
UNSUPPORTED = "not supported by this device"
RX, TX, LINKS_RX, LINKS_TX = 198, 197, 139, 138


class Watch:
    """One card, read again and again."""

    def __init__(self, nvidia: Nvidia, clock: Clock) -> None:
        self._nvidia, self._clock, self._card = nvidia, clock, nvidia.open()[0]

    def read(self, after: float = 0.0, watched: bool = True) -> Reading:
        self._clock.now += after
        return self._nvidia.read(self._card, self._clock.now, watched)[0]


def rates(reading: Reading, names: tuple[str, ...]) -> tuple[int | None, ...]:
    return tuple(getattr(reading.sample, name) for name in names)


def test_wide_counters_give_the_mean_since_the_reading_before(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    start = 1 << 40
    standin.change(0, fields={RX: start, TX: start, LINKS_RX: 1000, LINKS_TX: 5000})
    watch = Watch(nvidia, clock)
    first = watch.read()
    assert rates(first, PCIE + NVLINK) == (None,) * 4
    assert {first.missing[name] for name in PCIE + NVLINK} == {FIRST}
    standin.change(0, fields={RX: start + 600, TX: start + 300, LINKS_RX: 1002, LINKS_TX: 5010})
    second = watch.read(after=2.0)
    assert rates(second, PCIE) == (300, 150)
    assert rates(second, NVLINK) == (1024, 5120), "NVLink counts KiB"
    assert not set(second.missing) & set(PCIE + NVLINK)


def test_a_rate_is_kept_until_it_is_due_and_says_when_it_was_read(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    standin.change(0, fields={LINKS_RX: 0, LINKS_TX: 0})
    watch = Watch(nvidia, clock)
    watch.read()
    standin.change(0, fields={LINKS_RX: 10, LINKS_TX: 10})
    fresh = watch.read(after=1.0)
    read_at = clock.now
    standin.change(0, fields={LINKS_RX: 99, LINKS_TX: 99})
    kept = watch.read(after=1.0)
    assert rates(kept, NVLINK) == rates(fresh, NVLINK) == (10240, 10240)
    assert fresh.sample is not None
    assert kept.sample is not None
    assert not set(fresh.sample.read_at) & set(NVLINK)
    assert {kept.sample.read_at[name] for name in NVLINK} == {read_at}
    later = watch.read(after=4.0)
    assert rates(later, NVLINK) == (round(89 * 1024 / 5),) * 2


def counted(read: Callable[[], object]) -> int:
    """How often a reading asks for the counters."""
    return python_calls(read)["counts"]


def test_nobody_watches_so_it_is_read_late_and_seldom(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    standin.change(0, fields={LINKS_RX: 0, LINKS_TX: 0})
    watch, read_at = Watch(nvidia, clock), list[int]()
    first = watch.read(watched=False)
    assert {first.missing[name] for name in PCIE + NVLINK} == {NOT_YET}
    for second in range(1, 131):
        if counted(lambda: watch.read(after=1.0, watched=False)):
            read_at.append(second)
    assert read_at == [30, 31, 91]
    watch.read(after=1.0)
    assert counted(lambda: watch.read(after=5.0)), "sooner if watched"
    assert rates(watch.read(after=5.0), NVLINK) == (0, 0)


def test_what_the_card_lacks_is_unknown_and_not_asked_for_again(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    standin.change(0, pcie_tx_kb=None, pcie_rx_kb=None)
    watch = Watch(nvidia, clock)
    assert [counted(lambda: watch.read(after=20.0)) for _ in range(3)] == [1, 0, 0]
    reading = watch.read(after=20.0)
    assert {reading.missing[name] for name in PCIE + NVLINK} == {UNSUPPORTED}


def test_a_driver_without_field_values_leaves_them_unknown_for_good(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    with standin.broken(not_supported("nvmlDeviceGetFieldValues")):
        watch = Watch(nvidia, clock)
        reading = watch.read()
    assert {reading.missing[name] for name in PCIE} == {UNSUPPORTED}
    assert {watch.read(after=20.0).missing[name] for name in PCIE} == {UNSUPPORTED}


def test_a_call_that_fails_once_is_unknown_until_there_are_two_readings_again(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    standin.change(0, fields={LINKS_RX: 0, LINKS_TX: 0})
    watch = Watch(nvidia, clock)
    watch.read()
    watch.read(after=1.0)
    with standin.broken(error(999, "nvmlDeviceGetFieldValues")):
        broken = watch.read(after=10.0)
    assert broken.missing[NVLINK[0]] == "the driver reported an unknown error"
    assert broken.sample is not None
    assert broken.sample.utilization_percent == 0, "the rest of the sample is not affected"
    assert watch.read(after=10.0).missing[NVLINK[0]] == FIRST
    assert rates(watch.read(after=10.0), NVLINK) == (0, 0)


def test_mig_instances_say_that_only_the_board_counts(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    standin.change(0, mig_mode=1, migs=(StandInMig("MIG-1"),))
    card = nvidia.open()[0]
    nvidia.describe(card)
    instance = nvidia.read(card, clock.now, False)[1]
    assert {instance.missing[name] for name in PCIE} == {"not reported for a MIG instance"}


def test_the_stand_in_counts_with_32_bits_as_an_h200_does(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    standin.change(0, pcie_tx_kb=40 << 20, pcie_rx_kb=40 << 20)  # 40 GiB/s: it wraps every 0.1 s
    handle = nvml.handle_by_index(0) if nvidia.open() else None
    fields = [nvml.TRAFFIC_FIELDS[name] for name in PCIE]
    counts = [count for _ in range(50) for count in nvml.counts(handle, fields)]
    assert all(isinstance(count, LinkCount) and 0 <= count.value < 1 << 32 for count in counts)
    times = [count.at for count in counts if isinstance(count, LinkCount)]
    assert all(earlier <= later for earlier, later in pairwise(times))


# The counters of 32 bits, without a driver.


class Link:
    """A link whose counters move with a clock of the driver's own."""

    def __init__(self) -> None:
        self.now, self.total, self.rate = 0.0, 0, 0
        self.step, self.own = 0.001, 0
        self.traffic = Traffic(self.counts)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.total += round(self.rate * seconds)

    def counts(self, handle: object, fields: Sequence[LinkField]) -> list[LinkCount | nvml.Error]:
        return [
            nvml.Error(3) if field.id in (LINKS_RX, LINKS_TX) else
            LinkCount(self.total % (1 << 32), self.now)
            for field in fields
        ]  # fmt: skip

    def read(self, after: float = 0.0) -> int | str | None:
        self.pass_time(after)
        now = self.now
        self.traffic.begin(None, now, now, True)
        self.pass_time(self.step)  # the other calls
        self.total += self.own
        self.traffic.finish(None, now)
        return self.traffic.values[PCIE[0]] or self.traffic.missing.get(PCIE[0])


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.mark.parametrize("rate", [5_000_000, 800_000_000, 13_000_000_000, 63_000_000_000])
def test_a_counter_that_wraps_many_times_a_second_still_tells_the_rate(
    link: Link, rate: int
) -> None:
    link.rate = rate
    assert link.read() == FIRST
    for _ in range(5):
        assert link.read(after=10.0) == pytest.approx(rate, rel=1e-3)


def test_an_idle_link_is_zero_and_not_what_our_own_calls_cause(link: Link) -> None:
    link.own = 50_000  # in a thousandth of a second
    link.read()
    assert link.read(after=10.0) == pytest.approx(5_000, rel=0.01)
    link.own = 0
    link.read(after=10.0)
    link.read(after=10.0)
    assert link.traffic.values[PCIE[0]] == 0


def test_a_counter_that_starts_again_is_unknown(link: Link) -> None:
    link.total = 3_000_000_000
    link.read()
    link.total = 100
    assert link.read(after=10.0) == WRAPPED
    link.total = 1 << 33
    link.read(after=10.0)


def test_a_clock_that_is_set_meanwhile_leaves_it_unknown(link: Link) -> None:
    link.rate = 1000
    link.read()
    for step in (-3600.0, 0.0, 3600.0):
        link.step = 0.001
        link.pass_time(10.0)
        link.step = step
        assert link.read() == NO_MOMENT


def test_nvlink_never_wraps(nvidia: Nvidia, standin: StandIn, clock: Clock) -> None:
    standin.change(0, fields={LINKS_RX: 100, LINKS_TX: 100})
    watch = Watch(nvidia, clock)
    watch.read()
    standin.change(0, fields={LINKS_RX: 5, LINKS_TX: 200})
    reading = watch.read(after=1.0)
    assert reading.missing[NVLINK[0]] == STARTED_AGAIN
    assert rates(reading, NVLINK) == (None, 102_400)
