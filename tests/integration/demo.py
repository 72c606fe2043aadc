"""A demo that runs: `andon demo` in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

END_SECONDS = 30


class Demo:
    """A running demo: its address, the sign-in link, and the process."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, link: str) -> None:
        self.process, self.url, self.link = process, url, link

    def get(self, path: str) -> Any:
        with urlopen(f"{self.url}{path}", timeout=20) as answer:
            return json.load(answer)

    def post(self, path: str, body: object = None, secret: str | None = None) -> Any:
        headers = {"Content-Type": "application/json", "Origin": self.url}
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        request = Request(
            f"{self.url}{path}", json.dumps(body or {}).encode(), headers, method="POST"
        )
        with urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def signed_in(self) -> str:
        found: str = self.post("/api/session", {"code": self.link.partition("#code=")[2]})["secret"]
        return found


@contextmanager
def running_demo(*options: str, **env: str) -> Iterator[Demo]:
    """Starts a demo on a free port, and ends it."""
    command = [sys.executable, "-m", "andon", "demo", "--port", "0", *options]
    known = os.environ | env
    with subprocess.Popen(command, env=known, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = re.search(r"http://\S+", process.stdout.readline())
        link = re.search(r"http://\S+", process.stdout.readline())
        assert url is not None
        assert link is not None
        try:
            yield Demo(process, url[0], link[0])
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(END_SECONDS)
