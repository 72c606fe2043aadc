"""Writes ticks into a store until it is killed; prints each number once it is committed."""

import sys
from pathlib import Path

from andon.history.rules.series import NodeReadings
from andon.history.rules.tiers import Retention
from andon.history.writer import Maintainer
from andon.stores.sqlite import SqliteStore

AT = 1_790_000_000.0 - 1_790_000_000.0 % 864_000


def main() -> None:
    store, number = SqliteStore(Path(sys.argv[1])), int(sys.argv[2])
    maintainer = Maintainer(store, Retention())
    while True:
        at = AT + 20 * number
        store.write([NodeReadings(at, (("GPU-1", ("utilization_percent",), (number % 100,)),))])
        print(number, flush=True)
        if number % 15 == 0:
            maintainer.step(at)
        number += 1


if __name__ == "__main__":
    main()
