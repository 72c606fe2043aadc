"""Cost of many hosts over SSH: `python -m bench.ssh`, against sshd on loopback (root).

One sshd stands for all hosts, each a name of its own. First 50 plain `ssh true`, 32 at once; then
`andon status --ssh` on 50 hosts that only have nvidia-smi (so that the time is ours and that of
ssh, not that of fifty starts of andon on one machine), and with andon there. Our own share is the
CPU time of this side without that of its ssh. Then 200 hosts, of which 150 take the connection and
never answer.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.ssh_hosts import SshHosts, silent_port

AT_ONCE = 32
MOST_RATIO, MOST_SHARE_PERCENT = 1.5, 5.0


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        hosts = SshHosts(Path(folder), options.port)
        try:
            _measure(hosts, options.hosts, options.dead)
        finally:
            hosts.close()


def _measure(hosts: SshHosts, count: int, dead: int) -> None:
    smi = hosts.add("smi", andon="smi")
    own = hosts.add("own", andon="path")
    for number in range(count):
        hosts.alias(f"s{number}", smi)
        hosts.alias(f"a{number}", own)
    plain = min(_plain(hosts, count) for _ in range(2))
    print(f"{count} plain `ssh true`, {AT_ONCE} at once   {plain:6.2f} s")
    for kind, words in (("s", "nvidia-smi there"), ("a", "andon there")):
        names = ",".join(f"{kind}{number}" for number in range(count))
        took, cpu, text = min(_ours(hosts, names, "--timeout", "120") for _ in range(2))
        share = 100 * cpu / took
        print(f"{count} hosts, {words:18} {took:10.2f} s  {took / plain:5.2f} x  "
              f"own CPU {cpu:.2f} s ({share:.0f} %)  {text}")  # fmt: skip
    loop = time.monotonic()
    for number in range(count):
        by_hand = (str(hosts.bin / "ssh"), f"s{number}", "nvidia-smi")
        subprocess.run(by_hand, stdout=subprocess.DEVNULL, check=True)
    print(f"a loop of `ssh host nvidia-smi`  {time.monotonic() - loop:10.2f} s")
    with silent_port() as port:
        for number in range(dead):
            hosts.alias(f"d{number}", port)
        mixed = [f"d{n}" for n in range(dead)] + [f"s{n}" for n in range(count)]
        took, _, text = _ours(hosts, ",".join(mixed))
    print(f"{dead + count} hosts, {dead} of them dead  {took:17.2f} s  {text}")


def _plain(hosts: SshHosts, count: int) -> float:
    def one(number: int) -> None:
        words = (str(hosts.bin / "ssh"), "-o", "BatchMode=yes", f"s{number}", "true")
        subprocess.run(words, check=True)

    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(count)))
    return time.monotonic() - began


def _ours(hosts: SshHosts, names: str, *more: str) -> tuple[float, float, str]:
    """Returns the time, our own CPU time without that of ssh, and the last line."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
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
    words = [sys.executable, "-c", code, "status", "--ssh", names, *more]
    done = subprocess.run(
        words, capture_output=True, text=True, env=hosts.surroundings(), pass_fds=(write,),
        check=False,
    )  # fmt: skip
    took = time.monotonic() - began
    os.close(write)
    with os.fdopen(read) as told:
        own = float(told.read() or 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime >= before.ru_utime
    return took, own, done.stdout.splitlines()[-1] if done.stdout else done.stderr[-200:]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--dead", type=int, default=150)
    parser.add_argument("--port", type=int, default=28600)
    return parser.parse_args()


if __name__ == "__main__":
    main()
