"""Where dispatchers of before November 2026 look for the supervisor: see `andon/process.py`."""

# ruff: noqa: PTH118, PTH120 - as in the supervisor itself

import os
import sys

if __name__ == "supervisor":
    sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "standalone"))
    main = __import__("job_supervisor").main
