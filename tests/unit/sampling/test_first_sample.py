"""The first sample's share of the processors is the machine's, not that of starting up."""

import os
from types import SimpleNamespace

import pytest

from andon.model.device import Host
from andon.sampling import sampler as module
from andon.sampling.rules.masks import visibility
from andon.sampling.sampler import (
    FIRST_SAMPLE_CPU_SECONDS,
    FIRST_SAMPLE_SECONDS,
    NodeIdentity,
    Sampler,
)


class Clock:
    """Time that passes while somebody sleeps, and CPU time that this process used."""

    def __init__(self) -> None:
        self.now, self.own = 100.0, 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def times(self) -> tuple[float, ...]:
        return self.own, 0.0, 0.0, 0.0, 0.0


class ReadHost:
    """The times at which the node was read; each read after the baseline takes a while."""

    def __init__(self, clock: Clock, until_answers: float, own: float) -> None:
        self.at: list[float] = []
        self._clock, self._until_answers, self._own = clock, until_answers, own

    def read(self) -> Host:
        self.at.append(self._clock.now)
        if len(self.at) == 1:  # the baseline; then the readers start and answer
            self._clock.now += self._until_answers
            self._clock.own += self._own
        return Host(cpu_percent=40.0)


@pytest.mark.parametrize(
    ("processors", "until_answers", "own", "window"),
    [
        (2, 0.15, 0.15, (0.15, 0.25)),  # what was measured so far is mostly starting up
        (2, 0.03, 0.03, (0.03, 0.13)),
        (256, 0.15, 0.15, (0.0, 0.15)),  # it hardly shows
        (16, 0.2, 0.3, (0.0, 0.2)),  # nobody had to wait for it, and it is left out
        (256, 0.03, 0.03, (0.0, 0.03)),
        (16, 0.02, 0.001, (0.0, 0.03125)),  # fifty ticks of all of them
        (2, 0.3, 0.001, (0.0, 0.3)),
    ],
)
def test_the_share_is_measured_while_nothing_of_ours_runs(
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    until_answers: float,
    own: float,
    window: tuple[float, float],
) -> None:
    clock = Clock()
    host = ReadHost(clock, until_answers, own)
    fake = SimpleNamespace(times=clock.times, cpu_count=lambda: processors, getpid=os.getpid)
    ticking = SimpleNamespace(
        monotonic=lambda: clock.now, time=lambda: clock.now, perf_counter=lambda: clock.now,
        thread_time=lambda: 0.0, sleep=clock.sleep,
    )  # fmt: skip
    monkeypatch.setattr(module, "os", fake)
    monkeypatch.setattr(module, "time", ticking)
    sampler = Sampler({}, host, NodeIdentity("n", None), lambda devices: visibility(devices, {}))
    shown = sampler.once().host.cpu_percent
    was_left_out = host.at[-2] == 100.0
    least = min(FIRST_SAMPLE_SECONDS, FIRST_SAMPLE_CPU_SECONDS / processors)
    used, everything = own if was_left_out else 0.0, processors * max(until_answers, least)
    assert shown == round(100.0 * (0.4 * everything - used) / (everything - used), 1)
    measured = tuple(round(at - 100.0, 6) for at in host.at[-2:])
    assert measured == window
    assert measured[1] - measured[0] >= least - 1e-9
    count = len(host.at)
    sampler.once()
    assert len(host.at) == count + 1, "later samples wait for nothing"
