"""Measurements of a server, their summary, and andon's targets."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from bench.served import Held, Used
from bench.targets import Verdict

OWN_PERCENT = 0.6
MEMORY_BYTES = 120e6
STEADY_BYTES = 1e6
"""Memory noise of an idle Python process; more than this is growth."""
DELIVERED_SECONDS = 1.0
LATER_SECONDS = 0.1
GROWTH_BYTES = 20e6


class Look(Struct, frozen=True):
    """The server at one moment of a run."""

    seconds: float
    used: Used
    held: Held


class Stay(Struct, frozen=True):
    """One client for a while."""

    client: str
    looks: tuple[Look, ...]
    ticks: int
    missed: int
    driver: Mapping[str, float]

    @property
    def seconds(self) -> float:
        return self.looks[-1].seconds - self.looks[0].seconds

    @property
    def driver_percent(self) -> float:
        return 100.0 * self.driver["cpu_seconds_per_tick"] * self.ticks / self.seconds

    @property
    def own_percent(self) -> float:
        """The server and its reader, without the driver's calls."""
        first, last = self.looks[0].used, self.looks[-1].used
        return self._percent(last.cpu_seconds - first.cpu_seconds) - self.driver_percent

    @property
    def growth_bytes(self) -> float:
        """From the mean of the fifth after the middle to the mean of the last fifth."""
        begin, fifth = self.looks[0].seconds, self.seconds / 5

        def mean(since: float) -> float:
            inside = [k.held.rss for k in self.looks if since <= k.seconds - begin <= since + fifth]
            return statistics.fmean(inside)

        return mean(4 * fifth) - mean(2.5 * fifth)

    def rows(self) -> Iterator[tuple[str, float]]:
        """Each part and its share of a core."""
        first, last = self.looks[0].used, self.looks[-1].used
        yield "all", self._percent(last.cpu_seconds - first.cpu_seconds)
        yield "  the driver's calls", self.driver_percent
        yield "  our own code", self.own_percent
        yield "the reader", self._percent(last.reader_cpu_seconds - first.reader_cpu_seconds)
        yield "the server", self._percent(last.server_cpu_seconds - first.server_cpu_seconds)
        before = first.threads_cpu_seconds
        parts = {n: s - before.get(n, 0.0) for n, s in last.threads_cpu_seconds.items()}
        for name, spent in sorted(parts.items(), key=lambda part: -part[1]):
            yield f"  {name}", self._percent(spent)

    def _percent(self, cpu_seconds: float) -> float:
        return 100.0 * cpu_seconds / self.seconds

    def __str__(self) -> str:
        middle, end = self.looks[len(self.looks) // 2].held, self.looks[-1].held
        lines = [
            f"one client: {self.client}; {self.seconds / 60:.1f} minutes, {self.ticks} ticks, "
            f"{self.missed} missed",
            "",
            f"{'':<26}{'% of a core':>12}{'ms per s':>13}",
            *(f"{name:<26}{share:>12.3f}{10 * share:>13.2f}" for name, share in self.rows()),
            "",
            f"{'memory, MB':<26}{'RSS':>12}{'PSS':>13}{'server':>10}{'reader':>10}  (RSS)",
            _memory("at the middle", middle),
            _memory("at the end", end),
            f"{'growth, second half':<26}{self.growth_bytes / 1e6:>12.2f}",
        ]  # fmt: skip
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "client": self.client,
            "seconds": self.seconds,
            "ticks": self.ticks,
            "missed": self.missed,
            "percent_of_a_core": {name.strip(): share for name, share in self.rows()},
            "growth_bytes": self.growth_bytes,
            "driver": dict(self.driver),
            "looks": [to_builtins(look) for look in self.looks],
        }


class Crowd(Struct, frozen=True):
    """Many clients, and one client before them."""

    alone: Mapping[str, Any]
    together: Mapping[str, Any]
    stalled: int
    before: Look
    looks: tuple[Look, ...]
    missed: int
    dropped: int

    @property
    def growth_bytes(self) -> int:
        """The maximum at any time, including the connections themselves."""
        return max(look.held.rss for look in self.looks) - self.before.held.rss

    @property
    def growth_later_bytes(self) -> int:
        """From when all were connected to the end."""
        return self.looks[-1].held.rss - self.looks[0].held.rss

    @property
    def percent(self) -> float:
        first, last = self.looks[0], self.looks[-1]
        spent = last.used.cpu_seconds - first.used.cpu_seconds
        return 100.0 * spent / (last.seconds - first.seconds)

    def __str__(self) -> str:
        said = self.together
        lines = [
            f"{said['clients']} clients and {self.stalled} stalled, each subscribes to every "
            f"snapshot; {self.looks[-1].seconds - self.looks[0].seconds:.0f} s",
            "",
            f"updates delivered         {said['delivered']} of {said['delivered'] + said['lost']}",
            f"delay of an update, ms    median {_ms(said['delay_median_seconds'])}, "
            f"p99 {_ms(said['delay_p99_seconds'])}, max {_ms(said['delay_most_seconds'])}",
            *(_lateness(name, one) for name, one in (("one client", self.alone),
                                                     ("all", said))),
            f"ticks missed              {self.missed}",
            f"clients dropped           {self.dropped} (stalled {said['stalled_connections']} "
            f"times; {said['closed']} healthy ones closed)",
            f"server and reader         {self.percent:.1f} % of a core; the clients "
            f"{said['cpu_seconds']:.0f} s in all",
            f"memory, MB (RSS)          {self.before.held.rss / 1e6:.1f} before the clients, "
            f"{self.looks[0].held.rss / 1e6:.1f} with them, {self.looks[-1].held.rss / 1e6:.1f} "
            f"at the end, {max(k.held.rss for k in self.looks) / 1e6:.1f} at most",
        ]  # fmt: skip
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "alone": dict(self.alone),
            "together": dict(self.together),
            "stalled": self.stalled,
            "missed": self.missed,
            "dropped": self.dropped,
            "growth_bytes": self.growth_bytes,
            "growth_later_bytes": self.growth_later_bytes,
            "percent_of_a_core": self.percent,
            "before": to_builtins(self.before),
            "looks": [to_builtins(look) for look in self.looks],
        }


def stay_verdicts(stay: Stay) -> Iterator[Verdict]:
    most = max(look.held.rss for look in stay.looks)
    own = stay.own_percent
    yield Verdict(f"our own code under {OWN_PERCENT} % of a core", f"{own:.3f} %",
                  own < OWN_PERCENT)  # fmt: skip
    yield Verdict(f"under {MEMORY_BYTES / 1e6:.0f} MB with the reader", f"{most / 1e6:.1f} MB",
                  most < MEMORY_BYTES)  # fmt: skip
    grown = stay.growth_bytes
    yield Verdict("no growth over the second half (under 1 MB)", f"{grown / 1e6:+.2f} MB",
                  grown < STEADY_BYTES)  # fmt: skip
    yield Verdict("no tick missed", str(stay.missed), stay.missed == 0)


def crowd_verdicts(crowd: Crowd) -> Iterator[Verdict]:
    said = crowd.together
    lost, most = said["lost"] + said["closed"], said["delay_most_seconds"]
    yield Verdict(
        f"every update delivered within {DELIVERED_SECONDS:g} s to every healthy client",
        f"{lost} lost, {_ms(most)} ms maximum",
        not lost and most is not None and most < DELIVERED_SECONDS,
    )
    later = _p99(said["ticks_late_seconds"]) - _p99(crowd.alone["ticks_late_seconds"])
    yield Verdict(
        f"ticks not delayed: p99 under {1e3 * LATER_SECONDS:g} ms later than with one client",
        f"{1e3 * later:+.1f} ms, {crowd.missed} missed",
        later < LATER_SECONDS and crowd.missed == 0,
    )
    yield Verdict(
        f"memory growth under {GROWTH_BYTES / 1e6:.0f} MB, the connections included",
        f"{crowd.growth_bytes / 1e6:.1f} MB ({crowd.growth_later_bytes / 1e6:+.1f} MB since all "
        "were connected)",
        crowd.growth_bytes < GROWTH_BYTES,
    )


def _memory(name: str, held: Held) -> str:
    sizes = (held.rss, held.pss, held.server_rss, held.reader_rss)
    first, second, *rest = (size / 1e6 for size in sizes)
    return f"{name:<26}{first:>12.1f}{second:>13.1f}" + "".join(f"{one:>10.1f}" for one in rest)


def _lateness(name: str, said: Mapping[str, Any]) -> str:
    late = said["ticks_late_seconds"]
    title = f"tick too late, {name}"
    return (
        f"{title:<26}median {_ms(statistics.median(late))} ms, p99 {_ms(_p99(late))} ms, "
        f"max {_ms(late[-1])} ms of {len(late)}"
    )


def _p99(ordered: Sequence[float]) -> float:
    return ordered[round(0.99 * (len(ordered) - 1))]


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e3 * seconds:.1f}"
