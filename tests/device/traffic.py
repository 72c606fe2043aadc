"""PCIe and NVLink traffic with a real driver: known, possible, and as much as was copied."""

import json
import select
import statistics
import subprocess
import time

from andon.drivers.nvidia import nvml
from andon.host.rules.rates import FIRST
from andon.model.device import DeviceStatus
from andon.units import human_rate
from tests.device import copying
from tests.device.contract import sampler
from tests.device.scenes import Scene, SkippedError

PCIE = ("pcie_received_bytes_per_second", "pcie_sent_bytes_per_second")
NVLINK = ("nvlink_received_bytes_per_second", "nvlink_sent_bytes_per_second")
LANE_BYTES = 0.125e9  # of the first generation, each way; it doubles with each
COPY_SECONDS = 16.0
CALLS = 20
SLEEPING_SECONDS = 0.01  # the calls that measure a rate by themselves sleep twice as long


def traffic_is_known_from_the_second_reading_on(scene: Scene) -> str:
    with sampler() as fresh:
        first = fresh.once(expensive_fields=True)
        time.sleep(1.0)
        second = fresh.once(expensive_fields=True)
    early = [first.devices[0].missing.get(name) for name in PCIE]
    assert None not in early, "a first reading has no rate"
    for status in second.devices:
        if status.device.parent is None and status.sample is not None:
            _check_possible(status)
    return "; ".join(_words(status) for status in second.devices)


def _check_possible(status: DeviceStatus) -> None:
    limits = status.device.limits
    for name in (*PCIE, *NVLINK):
        rate, why = getattr(status.sample, name), status.missing.get(name)
        assert (rate is None) == (why is not None), (name, rate, why)
        assert why != FIRST, f"{name} is still unknown at the second reading"
        if rate is not None and name in PCIE and limits.pcie_generation and limits.pcie_width:
            most = LANE_BYTES * 2**limits.pcie_generation * limits.pcie_width
            assert 0 <= rate <= 1.2 * most, f"{name}: {human_rate(rate)} of {human_rate(most)}"


def _words(status: DeviceStatus) -> str:
    found = {n: getattr(status.sample, n, None) for n in (*PCIE, *NVLINK)}
    parts = (f"{n.removesuffix('_bytes_per_second')} {human_rate(r)}" for n, r in found.items()
             if r is not None)  # fmt: skip
    return ", ".join(parts) or "unknown: " + "; ".join(
        sorted({status.missing.get(name, "") for name in found})
    )


def the_counters_answer_without_sleeping(scene: Scene) -> str:
    """What the reader asks for, timed in this process."""
    try:
        nvml.start(wake_all=True)
    except nvml.Error as exc:
        raise SkippedError(f"NVML cannot be used in this process: {exc}") from exc
    try:
        handle, fields = nvml.handle_by_index(0), [nvml.TRAFFIC_FIELDS[name] for name in PCIE]
        walls, highest = [], 0
        for _ in range(CALLS):
            began = time.perf_counter()
            answers = nvml.counts(handle, fields)
            walls.append(time.perf_counter() - began)
            highest = max(
                [highest, *(one.value for one in answers if isinstance(one, nvml.LinkCount))]
            )
            time.sleep(0.05)
    finally:
        nvml.stop()
    median = statistics.median(walls)
    assert median < SLEEPING_SECONDS, f"{median * 1e3:.1f} ms for both PCIe counters"
    wide = "more than 32 bits" if highest >= 1 << 32 else "up to 32 bits so far"
    return f"{median * 1e6:.0f} µs for both PCIe counters, {wide}"


def what_is_copied_to_the_device_is_received(scene: Scene) -> str:
    with copying.start(COPY_SECONDS) as process:
        try:
            _wait_until_ready(process)
            rates = _received()
            assert process.stdout is not None
            copied = json.loads(process.stdout.readline())["bytes_per_second"]
        finally:
            process.kill()
    assert rates, "no rate was read while copying"
    seen = statistics.median(rates)
    words = f"{', '.join(map(human_rate, rates))} received while {human_rate(copied)} was copied"
    assert 0.6 * copied < seen < 1.6 * copied, words
    return words


def _received() -> list[int]:
    """The rates of the first device that were read while it copied; the first covers less."""
    found: dict[float, int] = {}
    end = time.monotonic() + COPY_SECONDS - 3.0
    with sampler() as fresh, fresh.subscribe(1.0, watching=True) as session:
        for snapshot in session:
            sample = snapshot.devices[0].sample
            rate = None if sample is None else sample.pcie_received_bytes_per_second
            if sample is not None and rate is not None:
                found.setdefault(sample.read_at.get(PCIE[0], sample.at), rate)
            if time.monotonic() > end:
                break
    return [found[at] for at in sorted(found)]


def _wait_until_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    heard, _, _ = select.select([process.stdout], [], [], copying.START_SECONDS)
    said = process.stdout.readline().strip() if heard else "it did not start in time"
    if said != copying.READY:
        raise SkippedError(f"nothing can be copied: {said or 'it ended without output'}")
