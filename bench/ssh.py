"""Cost of many hosts over SSH: `python -m bench.ssh`, against sshd on loopback (root).

Two sshd stand for all hosts, each a name of its own: one has only nvidia-smi, one has andon. What
`andon status --ssh` takes is compared with the same by hand, 32 at once: plain `ssh true`, which is
the least that fifty connections can take; `ssh HOST nvidia-smi -q -x`; `ssh HOST andon status
--json`. All of them take turns, a round each, and medians are compared.

Here all hosts are this machine, so that the work of fifty hosts is done by its cores. So CPU time
is printed by who used it: andon here, its ssh, and the hosts (sshd and what it started). What
`ssh true` takes of the hosts' is sshd itself; the rest would be done by fifty machines at once.
Then 200 hosts, of which 150 take the connection and never answer, named before the others.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.support.ssh_hosts import SshHosts, silent_port

AT_ONCE = 32
PR_SET_CHILD_SUBREAPER = 36
SMI = ("nvidia-smi", "-q", "-x")
STATUS = ("andon", "status", "--json")
_orphans = 0.0


class Took(NamedTuple):
    """What one round took, in seconds."""

    seconds: float
    here: float = 0.0  # CPU time of andon on this side
    ssh: float = 0.0  # CPU time of ssh
    hosts: float = 0.0  # CPU time of sshd and of what it started
    first: float = 0.0  # until the first row
    last_line: str = ""


def main() -> None:
    options = _options()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        hosts = SshHosts(Path(folder), options.port)
        try:
            _measure(hosts, options.hosts, options.dead, options.rounds)
        finally:
            hosts.close()


def _measure(hosts: SshHosts, count: int, dead: int, rounds: int) -> None:
    smi, own = hosts.add("smi", andon="smi"), hosts.add("own", andon="path")
    for number in range(count):
        hosts.alias(f"s{number}", smi)
        hosts.alias(f"a{number}", own)
    figures: dict[str, Callable[[], Took]] = {
        "by hand: ssh HOST true": lambda: _by_hand(hosts, "a", count, ("true",)),
        "by hand: ssh HOST andon": lambda: _by_hand(hosts, "a", count, STATUS),
        "andon status --ssh, andon there": lambda: _ours(hosts, "a", count),
        "by hand: ssh HOST nvidia-smi": lambda: _by_hand(hosts, "s", count, SMI),
        "andon status --ssh, nvidia-smi": lambda: _ours(hosts, "s", count),
    }
    found = {name: list[Took]() for name in figures}
    for _ in range(rounds):
        for name, measure in figures.items():
            found[name].append(measure())
    print(f"{count} hosts, {AT_ONCE} at once, medians of {rounds} rounds; CPU time in seconds")
    print(f"{'':<32} {'wall s':>7} {'x true':>7} {'andon':>7} {'ssh':>7} {'hosts':>7} {'each':>8}")
    plain = _median(found["by hand: ssh HOST true"], "seconds")
    for name, taken in found.items():
        seconds, here, ssh, there = (
            _median(taken, one) for one in ("seconds", "here", "ssh", "hosts")
        )
        print(
            f"{name:<32} {seconds:>7.2f} {seconds / plain:>7.2f} {here:>7.2f} {ssh:>7.2f}"
            f" {there:>7.2f} {1000 * there / count:>5.0f} ms"
        )
        if here:
            print(
                f"{'':<4}our share {100 * here / seconds:.1f} %, first row after"
                f" {_median(taken, 'first'):.2f} s; {taken[-1].last_line}"
            )
    loop = time.monotonic()
    for number in range(count):
        _ssh(hosts, f"s{number}", ("nvidia-smi",))
    print(f"{'a loop of ssh HOST nvidia-smi':<32} {time.monotonic() - loop:>7.2f}")
    with silent_port() as port:
        for number in range(dead):
            hosts.alias(f"d{number}", port)
        mixed = [f"d{n}" for n in range(dead)] + [f"s{n}" for n in range(count)]
        ours = _asked(hosts, mixed)
    print(f"{dead + count} hosts, {dead} of them dead: {ours.seconds:.2f} s; {ours.last_line}")


def _median(taken: Sequence[Took], name: str) -> float:
    return float(statistics.median(getattr(one, name) for one in taken))


def _by_hand(hosts: SshHosts, kind: str, count: int, words: tuple[str, ...]) -> Took:
    """The same command on all hosts."""
    there, ssh, began = hosts.cpu_seconds() + _orphans, _cpu_of_children(), time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda number: _ssh(hosts, f"{kind}{number}", words), range(count)))
    seconds, ssh = time.monotonic() - began, _cpu_of_children() - ssh
    return Took(seconds, 0.0, ssh, _settled(hosts) - there)


def _ssh(hosts: SshHosts, host: str, words: tuple[str, ...]) -> None:
    command = (str(hosts.bin / "ssh"), "-o", "BatchMode=yes", host, *words)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def _ours(hosts: SshHosts, kind: str, count: int) -> Took:
    return _asked(hosts, [f"{kind}{number}" for number in range(count)], "--timeout", "120")


def _asked(hosts: SshHosts, names: Sequence[str], *more: str) -> Took:
    read, write = os.pipe()
    code = (
        "import os, resource, sys\n"
        "leave = os._exit\n"
        "def told(code):\n"
        "    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))\n"
        "    used = [one.ru_utime + one.ru_stime for one in both]\n"
        f"    os.write({write}, '{{}} {{}}'.format(*used).encode())\n"
        "    leave(code)\n"
        "os._exit = told\n"
        "from andon.cli.entry import main\n"
        "main()\n"
    )
    there, began = hosts.cpu_seconds() + _orphans, time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", code, "status", "--ssh", ",".join(names), *more],
        stdout=subprocess.PIPE, text=True, env=hosts.surroundings(), pass_fds=(write,),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        first = process.stdout.readline()
        first_seconds = time.monotonic() - began
        lines = [first, *process.stdout]
    took = time.monotonic() - began
    os.close(write)
    with os.fdopen(read) as told:
        here, ssh = map(float, told.read().split())
    return Took(took, here, ssh, _settled(hosts) - there, first_seconds, lines[-1].strip())


def _cpu_of_children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _settled(hosts: SshHosts) -> float:
    """Returns the CPU time of the hosts once the last session has ended, with that of processes
    which nobody there waited for, as a reader that andon has killed."""
    global _orphans
    time.sleep(1.0)
    with suppress(ChildProcessError):
        while (found := os.wait4(-1, os.WNOHANG))[0]:
            _orphans += found[2].ru_utime + found[2].ru_stime
    return hosts.cpu_seconds() + _orphans


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--dead", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=28600)
    return parser.parse_args()


if __name__ == "__main__":
    main()
