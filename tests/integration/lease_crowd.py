"""Many processes that ask for a device at the same moment, each with a reader of its own.

    python -m tests.integration.lease_crowd 24 --shared 2GiB

Run it with the stand-in's variables and ANDON_LEASE_DIR set. All first look at the devices; with
`--hang FOLDER` the driver then hangs on one of them, before they ask. Prints JSON.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from andon.app import load_settings, open_sampler
from andon.core.requests import request_of
from andon.engine.granter import Granter, Terms
from andon.engine.survey import Surveyor
from andon.errors import AndonError
from andon.leases.book import Book
from tests.standin import StandIn, hung

HUNG_DEVICE = 3


def one(arguments: argparse.Namespace, ready: int, go: int, tell: int) -> None:
    """Look, wait for the signal, ask, hold, give back."""
    shared = arguments.shared is not None
    request = request_of((1, 1), arguments.shared, shared=shared)
    with open_sampler(load_settings({}).settings) as sampler:
        granter = Granter(Book(), Surveyor(lambda: sampler.once(hasty=True)))
        sampler.once(hasty=True)
        os.write(ready, b".")
        os.read(go, 1)
        began = time.monotonic()
        try:
            grant = granter.grant(request, Terms(command="crowd"), arguments.timeout)
        except AndonError as error:
            os.write(tell, (json.dumps({"error": str(error)}) + "\n").encode())
            return
        seconds = time.monotonic() - began
        indices = [share.index for share in grant.held.lease.shares]
        time.sleep(arguments.hold)
        grant.held.release()
        os.write(tell, (json.dumps({"seconds": seconds, "indices": indices}) + "\n").encode())


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
    if arguments.hang is not None:
        StandIn(arguments.hang).set_faults(hung(device=HUNG_DEVICE))
    os.close(go_write)
    with os.fdopen(tell_read) as told:
        results = [json.loads(line) for line in told]
    for _ in range(arguments.count):
        os.wait()
    return results


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--shared", metavar="SIZE")
    parser.add_argument("--hold", type=float, default=0.005)
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--hang", type=Path, metavar="FOLDER")
    print(json.dumps(crowd(parser.parse_args())))


if __name__ == "__main__":
    main()
