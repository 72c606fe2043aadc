"""`andon`, its threads known to the kernel by their names: `python -m bench.named_threads serve`.

Python before 3.14 keeps its threads' names to itself; what each of them costs can only be told
apart by them. Nothing else differs from the command.
"""

import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

LONGEST = 15  # what the kernel keeps


def name_threads() -> None:
    bare = threading.Thread.run

    def run(self: threading.Thread, *arguments: Any) -> None:
        place = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
        with suppress(OSError):
            place.write_bytes(self.name.encode()[:LONGEST])
        bare(self, *arguments)

    threading.Thread.run = run  # type: ignore[method-assign]


def main() -> None:
    from andon.cli.main import run

    name_threads()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
