"""Where processes of before November 2026 look for this script: see `andon/process.py`."""

import runpy
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).parents[2] / "standalone"
    runpy.run_path(str(folder / "scribe.py"), run_name="__main__")
