"""andon's cost targets, compared with measurements."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from bench.figures import ONE_HERTZ, TIGHT, Combo, Series, Spread

Kind = Literal["wall", "cpu"]
Part = Literal["all", "reader"]

STANDIN_CPU_SECONDS = 0.003
READER_SECONDS = 0.0006
LESS_WALL_THAN_NVITOP = 80.0
LESS_CPU_THAN_NVITOP = 20.0
LESS_WALL_THAN_GPUSTAT = 150.0


class Verdict(Struct, frozen=True):
    """One target; `reached` is None if this run did not measure it."""

    promise: str
    measured: str = "not measured in this run"
    reached: bool | None = None

    def __str__(self) -> str:
        word = {True: "reached", False: "NOT reached", None: "–"}[self.reached]
        return f"{word:<12}{self.promise}: {self.measured}"


def ratio(combo: Combo, peer: str, mode: str, kind: Kind, part: Part = "all") -> float | None:
    """Ratio of a peer's median to andon's, or to that of andon's reader alone."""
    theirs, ours = combo.find(peer, mode), combo.find("andon", mode)
    if theirs is None or ours is None:
        return None
    return _median(theirs, kind) / max(_median(ours, kind, part), 1e-9)


def verdicts(combos: Sequence[Combo]) -> Iterator[Verdict]:
    """All targets in order."""
    yield _standin_cpu(combos)
    yield from _linear(combos)
    real = next((combo for combo in combos if combo.place.real), None)
    yield _reader(real)
    yield _times(real, "nvitop", "wall", LESS_WALL_THAN_NVITOP)
    yield _times(real, "nvitop", "cpu", LESS_CPU_THAN_NVITOP)
    yield _times(real, "gpustat", "wall", LESS_WALL_THAN_GPUSTAT)


def _standin_cpu(combos: Sequence[Combo]) -> Verdict:
    promise = "stand-in, 8 devices, 40 processes, 1 Hz: at most 3 ms CPU per tick, all of andon"
    ours = _ours(combos, 8, 40, ONE_HERTZ)
    if ours is None:
        return Verdict(promise)
    cpu = Spread.of(ours.cpu)
    words = f"median {cpu.median_seconds * 1e3:.2f} ms, mean {cpu.mean_seconds * 1e3:.2f} ms"
    return Verdict(promise, words, cpu.median_seconds <= STANDIN_CPU_SECONDS)


def _linear(combos: Sequence[Combo]) -> Iterator[Verdict]:
    """No worse than linear: a device costs no more among 64 than among 8."""
    for mode, processes in ((m, p) for m in (ONE_HERTZ, TIGHT) for p in (0, 40)):
        promise = (
            f"stand-in, {processes} processes, {mode}: a device costs no more among 64 than among 8"
        )
        few, many = (_ours(combos, count, processes, mode) for count in (8, 64))
        if few is None or many is None:
            yield Verdict(promise)
            continue
        each = _median(few, "cpu") / 8, _median(many, "cpu") / 64
        words = f"{each[1] * 1e6:.0f} µs CPU per device, compared with {each[0] * 1e6:.0f} µs"
        yield Verdict(promise, words, each[1] <= each[0])


def _reader(real: Combo | None) -> Verdict:
    promise = (
        "real device, 1 Hz: a fast-tier tick with named processes at most 0.6 ms in the reader"
    )
    ours = real.find("andon", ONE_HERTZ) if real else None
    if ours is None:
        return Verdict(promise)
    # Four ticks of five read the fast tier alone, so the median is one of them.
    wall = Spread.of(ours.reader)
    words = f"median {wall.median_seconds * 1e3:.3f} ms, p99 {wall.p99_seconds * 1e3:.2f} ms"
    words += f", {ours.processes} named processes"
    # Without a process to name this would be a different, easier target.
    kept = wall.median_seconds <= READER_SECONDS if ours.processes else None
    return Verdict(promise, words, kept)


def _times(real: Combo | None, peer: str, kind: Kind, wanted: float) -> Verdict:
    """For the reader, which reads devices and processes as the peer does; and all of andon."""
    words = {"wall": "wall", "cpu": "CPU"}[kind]
    promise = f"real device, 1 Hz: a tick in the reader {wanted:.0f}x less {words} than {peer}"
    found = ratio(real, peer, ONE_HERTZ, kind, "reader") if real else None
    whole = ratio(real, peer, ONE_HERTZ, kind) if real else None
    if found is None or whole is None:
        return Verdict(promise)
    return Verdict(promise, f"{found:.1f}x (all of andon: {whole:.1f}x)", found >= wanted)


def _ours(combos: Sequence[Combo], devices: int, processes: int, mode: str) -> Series | None:
    for combo in combos:
        place = combo.place
        if (place.real, place.devices, place.processes) == (False, devices, processes):
            return combo.find("andon", mode)
    return None


def _median(series: Series, kind: Kind, part: Part = "all") -> float:
    whole = series.wall if kind == "wall" else series.cpu
    inside = series.reader if kind == "wall" else series.reader_cpu
    return Spread.of(inside if part == "reader" else whole).median_seconds
