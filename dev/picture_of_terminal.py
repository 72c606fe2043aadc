"""Pictures of what commands print that need another side: hosts over SSH, a model's server.

python -m dev.picture_of_terminal [FOLDER]    writes ssh.svg and benchmark.svg there
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dev.picture_of_top import svg
from tests.support.model_servers import ModelServer
from tests.support.ssh_hosts import SshHosts

from andon.cli.show.text import Text

OUT, FIRST_PORT = Path("docs/pictures"), 28400
STYLES = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "36": "cyan"}
SGR = re.compile(r"\x1b\[([\d;]*)m")
NARROWEST = 80


def main(out: Path = OUT) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (out / "ssh.svg").write_text(of_hosts(Path(folder)), encoding="utf-8")
        (out / "benchmark.svg").write_text(of_server(Path(folder)), encoding="utf-8")


def of_hosts(folder: Path) -> str:
    """A busy host, one that is free, one with nvidia-smi alone, and one that is switched off."""
    hosts = SshHosts(folder / "ssh", FIRST_PORT)
    try:
        hosts.add("lab1", environment={"ANDON_SIMULATE": "8"})
        hosts.add("lab2", environment={"ANDON_SIMULATE_SCENARIO": "idle"})
        hosts.add("lab3", andon="smi")
        hosts.add("lab4", listens=False)
        names = "lab1,lab2,lab3,lab4"
        typed = (f"andon free --gpus 2 --ssh {names}", f"andon --ssh {names}")
        return picture(typed, hosts.surroundings())
    finally:
        hosts.close()


def of_server(folder: Path) -> str:
    server = ModelServer(tokens=64, first_seconds=0.1, gap_seconds=0.01)
    try:
        typed = f"andon benchmark {server.url} --rate 4,16 --seconds 5s --slo first-token=500ms"
        own = {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder), "COLUMNS": "160"}
        return picture((typed,), {**os.environ, **own})
    finally:
        server.close()


def picture(typed: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """The commands with what they print, in the colours of a terminal."""
    lines: list[Text] = []
    for command in typed:
        words = [sys.executable, "-m", "andon.cli", *command.split()[1:], "--color", "always"]
        done = subprocess.run(
            words, env=dict(environment), capture_output=True, text=True, check=False
        )
        shown = done.stdout or done.stderr
        lines += [styled(f"$ {command}"), *map(styled, shown.splitlines()), styled("")]
    return svg(lines[:-1], max(NARROWEST, *(line.width for line in lines)))


def styled(line: str) -> Text:
    """A line with the escape sequences of colours as styles."""
    spans, style = [], ""
    for number, part in enumerate(SGR.split(line)):
        if number % 2:
            style = " ".join(STYLES[code] for code in part.split(";") if code in STYLES)
        elif part:
            spans.append((part, style))
    return Text(tuple(spans))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
