"""`andon` with thread names visible to the kernel: `python -m bench.named_threads serve`.

Python before 3.14 does not pass thread names to the kernel, and they are needed to measure each
thread. Nothing else differs from the command.
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
