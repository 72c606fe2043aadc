"""Cost of many hosts over SSH: `python -m bench.ssh`, against sshd on loopback (root).

Two sshd stand for all hosts, each a name of its own: one has only nvidia-smi, one has andon. What
`andon status --ssh` takes is compared with the same by hand, 32 at once: plain `ssh true`, which is
the least that fifty connections can take; `ssh HOST nvidia-smi -q -x`; `ssh HOST andon status
--json`. Here all hosts are this machine, so that the work of fifty hosts is done by its cores: the
time beyond that of `ssh true` is theirs, and ours is what exceeds the same by hand. Our own share
is the CPU time of this side, without that of its ssh, of the time that the whole took. Then 200
hosts, of which 150 take the connection and never answer, named before the others.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.support.ssh_hosts import SshHosts, silent_port

AT_ONCE = 32
ROUNDS = 2
SMI = ("nvidia-smi", "-q", "-x")
STATUS = ("andon", "status", "--json")


class Ours(NamedTuple):
    """What one `andon status --ssh` took."""

    seconds: float
    cpu_seconds: float  # without its ssh
    first_seconds: float  # until the first row
    last_line: str


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        hosts = SshHosts(Path(folder), options.port)
        try:
            _measure(hosts, options.hosts, options.dead)
        finally:
            hosts.close()


def _measure(hosts: SshHosts, count: int, dead: int) -> None:
    smi, own = hosts.add("smi", andon="smi"), hosts.add("own", andon="path")
    for number in range(count):
        hosts.alias(f"s{number}", smi)
        hosts.alias(f"a{number}", own)
    plain = _by_hand(hosts, "s", count, ("true",))
    print(f"{count} hosts, by hand `ssh true`, {AT_ONCE} at once {plain:9.2f} s")
    for kind, words in (("s", SMI), ("a", STATUS)):
        hand = _by_hand(hosts, kind, count, words)
        names = ",".join(f"{kind}{number}" for number in range(count))
        ours = min(_ours(hosts, names, "--timeout", "120") for _ in range(ROUNDS))
        share = 100 * ours.cpu_seconds / ours.seconds
        print(
            f"{count} hosts, by hand `ssh HOST {words[0]}` {hand:11.2f} s   {hand / plain:5.2f} x"
        )
        print(f"{count} hosts, andon status --ssh {ours.seconds:17.2f} s   "
              f"{ours.seconds / plain:5.2f} x   {ours.seconds / hand:5.2f} x by hand   "
              f"own CPU {ours.cpu_seconds:.2f} s ({share:.1f} %)   "
              f"first row {ours.first_seconds:.2f} s   {ours.last_line}")  # fmt: skip
    loop = time.monotonic()
    for number in range(count):
        _ssh(hosts, f"s{number}", ("nvidia-smi",))
    print(f"{count} hosts, a loop of `ssh HOST nvidia-smi` {time.monotonic() - loop:8.2f} s")
    with silent_port() as port:
        for number in range(dead):
            hosts.alias(f"d{number}", port)
        mixed = [f"d{n}" for n in range(dead)] + [f"s{n}" for n in range(count)]
        ours = _ours(hosts, ",".join(mixed))
    print(f"{dead + count} hosts, {dead} of them dead {ours.seconds:20.2f} s   {ours.last_line}")


def _by_hand(hosts: SshHosts, kind: str, count: int, words: tuple[str, ...]) -> float:
    """Returns the shortest of some rounds of the same command on all hosts."""
    found = list[float]()
    for _ in range(ROUNDS):
        began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda number: _ssh(hosts, f"{kind}{number}", words), range(count)))
        found.append(time.monotonic() - began)
    return min(found)


def _ssh(hosts: SshHosts, host: str, words: tuple[str, ...]) -> None:
    command = (str(hosts.bin / "ssh"), "-o", "BatchMode=yes", host, *words)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def _ours(hosts: SshHosts, names: str, *more: str) -> Ours:
    read, write = os.pipe()
    code = (
        "import os, resource, sys\n"
        "leave = os._exit\n"
        "def told(code):\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        f"    os.write({write}, str(used.ru_utime + used.ru_stime).encode())\n"
        "    leave(code)\n"
        "os._exit = told\n"
        "from andon.cli.entry import main\n"
        "main()\n"
    )
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", code, "status", "--ssh", names, *more], stdout=subprocess.PIPE,
        text=True, env=hosts.surroundings(), pass_fds=(write,),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        first = process.stdout.readline()
        first_seconds = time.monotonic() - began
        lines = [first, *process.stdout]
    took = time.monotonic() - began
    os.close(write)
    with os.fdopen(read) as told:
        return Ours(took, float(told.read() or 0), first_seconds, lines[-1].strip())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--dead", type=int, default=150)
    parser.add_argument("--port", type=int, default=28600)
    return parser.parse_args()


if __name__ == "__main__":
    main()
