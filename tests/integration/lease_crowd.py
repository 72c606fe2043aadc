"""Many processes that ask for a device at the same moment, each with a reader of its own.

    python -m tests.integration.lease_crowd 24 --shared 2GiB

Run it with the stand-in's variables and ANDON_LEASE_DIR set. All first look at the devices; with
`--pause` it then says "ready" and waits for a line, so that a driver can be made to hang before
they ask. Prints JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.errors import AndonError
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.rules.requests import RequestOptions

REPOSITORY = Path(__file__).parents[2]


def one(arguments: argparse.Namespace, ready: int, go: int, tell: int) -> None:
    """Look, wait for the signal, ask, hold, give back."""
    shared = arguments.shared is not None
    request = RequestOptions(1, arguments.shared, shared=shared).request()
    with open_sampler(load_settings({}).settings) as sampler:
        granter = Granter(Book(), Availability(lambda: sampler.once(with_host=False)))
        sampler.once(with_host=False)
        os.write(ready, b".")
        os.read(go, 1)
        began, cpu = time.monotonic(), time.process_time()
        try:
            grant = granter.grant(request, LeaseTerms(command="crowd"), arguments.timeout)
        except AndonError as error:
            os.write(tell, (json.dumps({"error": str(error)}) + "\n").encode())
            return
        told = {
            "seconds": time.monotonic() - began,
            "cpu_seconds": time.process_time() - cpu,
            "indices": [share.index for share in grant.held.lease.shares],
        }
        time.sleep(arguments.hold)
        grant.held.release()
        os.write(tell, (json.dumps(told) + "\n").encode())


def crowd(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """The claimants are forked, each in turn, before any of them has a reader or a thread."""
    ready_read, ready = os.pipe()
    go, go_write = os.pipe()
    tell_read, tell = os.pipe()
    for _ in range(arguments.count):
        if os.fork() == 0:
            os.close(go_write)
            code = 1
            try:
                one(arguments, ready, go, tell)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
    os.close(tell)
    for _ in range(arguments.count):
        os.read(ready_read, 1)
    if arguments.pause:
        print("ready", flush=True)
        sys.stdin.readline()
    os.close(go_write)
    with os.fdopen(tell_read) as told:
        results = [json.loads(line) for line in told]
    for _ in range(arguments.count):
        os.wait()
    return results


def asked(
    count: int, *arguments: str, meanwhile: Callable[[], None] | None = None
) -> list[dict[str, Any]]:
    """Run it from another program; `meanwhile` is called when all are ready."""
    command = [sys.executable, "-m", "tests.integration.lease_crowd", str(count), *arguments]
    command += ["--pause"] if meanwhile else []
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    )
    with process:
        if meanwhile is not None and process.stdout is not None:
            process.stdout.readline()
            meanwhile()
        out, _ = process.communicate("\n")
    if process.returncode:
        raise RuntimeError(f"the crowd ended with {process.returncode}")
    found: list[dict[str, Any]] = json.loads(out)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--shared", metavar="SIZE")
    parser.add_argument("--hold", type=float, default=0.005)
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--pause", action="store_true")
    print(json.dumps(crowd(parser.parse_args())))


if __name__ == "__main__":
    main()
