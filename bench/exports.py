"""Cost of exports: CPU of `andon serve` with and without them, and bytes for each snapshot.

`python -m bench.exports`: devices with 40 processes, exported every second to a receiver of
ours that accepts everything. Threads are measured by the kernel, so other work on the machine
counts little; that of a whole server varies more than an export costs.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from tests.support.receiving import Receiver, receiving

from bench import nodes
from bench.served import served

KINDS = ("remote-write", "otlp")
WARM_UP_SECONDS = 3.0


def main() -> None:
    options = _options()
    simulated = ["--simulate", str(options.devices)] if options.simulate else []
    node = nullcontext(dict(os.environ)) if simulated else nodes.standin(options.devices, 40)
    with node as environment:
        print(f"{options.devices} devices, a snapshot a second, {options.seconds:g} s each")
        for kinds in ((), *((kind,) for kind in KINDS), KINDS):
            _measure(kinds, dict(environment), simulated, options.seconds)


def _measure(
    kinds: tuple[str, ...], environment: Mapping[str, str], simulated: list[str], seconds: float
) -> None:
    with tempfile.TemporaryDirectory() as folder, receiving() as receiver:
        config = Path(folder) / "andon.toml"
        config.write_text("".join(_table(kind, receiver) for kind in kinds))
        config.chmod(0o600)
        options = ("--no-history", "--config", str(config), *simulated)
        with served(environment, Path(folder), *options) as server:
            time.sleep(WARM_UP_SECONDS)
            before, count, size = server.used(), len(receiver.got), _size(receiver)
            time.sleep(seconds)
            after, ticks = server.used(), (len(receiver.got) - count) / max(1, len(kinds))
        threads = {
            name: spent - before.threads_cpu_seconds.get(name, 0.0)
            for name, spent in after.threads_cpu_seconds.items()
        }
        own = sum(spent for name, spent in threads.items() if name.startswith("export"))
        whole = after.server_cpu_seconds - before.server_cpu_seconds
        each = (_size(receiver) - size) / max(1.0, ticks)
        what = " and ".join(kinds) or "without"
        print(
            f"{what:<22} server {100 * whole / seconds:5.2f} % of a core, "
            f"exports {1000 * own / max(1.0, ticks):5.2f} ms and {each:6.0f} bytes a snapshot"
        )


def _table(kind: str, receiver: Receiver) -> str:
    url = f"http://127.0.0.1:{receiver.port}/{kind}"
    return f'[[export]]\nkind = "{kind}"\nurl = "{url}"\ninterval = 1\n'


def _size(receiver: Receiver) -> int:
    return sum(map(len, receiver.bodies))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--simulate", action="store_true", help="instead of the stand-in driver")
    return parser.parse_args()


if __name__ == "__main__":
    main()
