"""What a hub takes for 500 nodes: `python -m bench.fleet` plays them and prints every figure.

Four parts in one run: players of nodes with the fleet page open and after an outage, a real node
that reports, and a day of readings in PostgreSQL beside SQLite and Prometheus. `--json FILE` keeps
the run; `--only live` takes a part.
"""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.fleet_agent import agent
from bench.fleet_figures import FleetFigure, write
from bench.fleet_players import live
from bench.fleet_sizes import sizes


def main() -> None:
    options = _options()
    found = list[FleetFigure]()

    def tell(figures: Iterable[FleetFigure]) -> None:
        for figure in figures:
            print(figure, flush=True)
            found.append(figure)

    parts: dict[str, Callable[[], None]] = {
        "live": lambda: live(options.nodes, options.seconds, not options.no_board, tell),
        "agent": lambda: tell(agent(options.seconds)),
        "sizes": lambda: tell(sizes(options.hours)),
    }
    print(f"{options.nodes} nodes of 8 devices and 40 processes, {options.seconds:.0f} s")
    for part in options.only.split(",") if options.only else parts:
        parts[part]()
    if options.json:
        write(options.json, found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--only", default="", help="live, agent or sizes, with commas")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--hours", type=int, default=24, help="of readings that are stored")
    parser.add_argument("--no-board", action="store_true", help="without a browser")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
