"""A headless Chromium on the server's page, which proves that it has rendered the node."""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

NAMES = ("chromium", "chromium-browser", "google-chrome")
SHOWN_SECONDS = 60.0
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--remote-debugging-port=0",
)  # fmt: skip


def found() -> str | None:
    """A browser on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def looking_at(url: str) -> Iterator[str]:
    """A browser that shows this page; yields the title that the page built from a snapshot."""
    command = found()
    assert command is not None
    with tempfile.TemporaryDirectory(prefix="andon-browser-", ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [command, *QUIET, f"--user-data-dir={home}", url],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            yield _shown(Path(home), url)
        finally:
            process.terminate()
            process.wait(SHOWN_SECONDS)


def _shown(home: Path, url: str) -> str:
    """The title is "andon" at first; headline and node precede it once they are rendered."""
    end = time.monotonic() + SHOWN_SECONDS
    while time.monotonic() < end:
        with suppress(OSError, ValueError, IndexError):
            port = int((home / "DevToolsActivePort").read_text().splitlines()[0])
            with urlopen(f"http://127.0.0.1:{port}/json", timeout=5) as answer:
                pages = json.loads(answer.read())
            titles = [p["title"] for p in pages if p["url"].startswith(url)]
            if titles and titles[0].count(" · ") >= 2 and "Looking" not in titles[0]:
                return str(titles[0])
        time.sleep(0.2)
    raise RuntimeError(f"the browser has not rendered {url} after {SHOWN_SECONDS:.0f} s")
