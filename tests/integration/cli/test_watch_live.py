"""`andon watch` on a terminal: redrawn in place, and the terminal is left as it was found."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import andon
from tests.support.tmux import Tmux
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Tmux]:
    with Tmux(tmp_path) as made:
        yield made


def begin(terminal: Tmux, *words: str) -> None:
    command = f"{sys.executable} -m andon watch -i 200ms --simulate 8 {' '.join(words)}"
    terminal.type(command, "Enter")
    wait_for(lambda: "UTIL" in terminal.screen())


def times(terminal: Tmux) -> str:
    return terminal.screen().splitlines()[0].split()[-2]


def test_it_redraws_in_place_and_q_leaves_the_last_picture(terminal: Tmux) -> None:
    terminal.type("echo before", "Enter")
    begin(terminal)
    first = times(terminal)
    wait_for(lambda: times(terminal) != first)
    assert terminal.told("cursor_flag") == "0", "hidden"
    assert terminal.screen().count("MODEL") == 1
    terminal.type("Enter", "x", "Enter")  # not echoed into the picture
    second = times(terminal)
    wait_for(lambda: times(terminal) != second)
    assert terminal.screen().count("MODEL") == 1
    terminal.type("q")
    wait_for(lambda: "rc 0 $" in terminal.screen())
    assert terminal.told("cursor_flag") == "1"
    assert terminal.whole().count("MODEL") == 1, "nothing scrolled by"
    assert "before" in terminal.whole(), "and nothing was lost"


def test_it_follows_the_size_of_the_window(terminal: Tmux) -> None:
    begin(terminal)
    terminal("resize-window", "-t", "w", "-x", "44", "-y", "9")
    wait_for(lambda: "a taller window shows them" in terminal.screen())
    assert all(len(line) <= 44 for line in terminal.screen().splitlines())
    assert terminal.screen().count("MODEL") == 1
    terminal.type("C-c")
    wait_for(lambda: "rc 0 $" in terminal.screen())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_however_it_ends_the_cursor_comes_back(terminal: Tmux, number: signal.Signals) -> None:
    begin(terminal)
    wait_for(lambda: terminal.told("cursor_flag") == "0")
    [pid] = terminal.children()
    os.kill(pid, number)
    wait_for(lambda: "rc 1" in terminal.screen())
    assert terminal.told("cursor_flag") == "1"
    terminal.type("stty", "Enter")
    wait_for(lambda: "speed" in terminal.screen())
    assert "-echo " not in terminal.screen()


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(terminal: Tmux) -> None:
    begin(terminal)
    terminal.type("C-z")
    wait_for(lambda: terminal.told("cursor_flag") == "1")
    terminal.type("fg", "Enter")
    wait_for(lambda: terminal.told("cursor_flag") == "0")
    wait_for(lambda: terminal.screen().count("MODEL") == 1)
    terminal.type("q")
    wait_for(lambda: terminal.told("cursor_flag") == "1")


def test_without_colours_there_are_none(terminal: Tmux) -> None:
    terminal.type("export NO_COLOR=1", "Enter")
    begin(terminal)
    assert "\x1b" not in terminal("capture-pane", "-t", "w", "-p", "-e")
    terminal.type("q")
    wait_for(lambda: "rc 0 $" in terminal.screen())


def test_lines_where_they_are_wanted(terminal: Tmux) -> None:
    begin(terminal, "--lines", "--count", "3")
    wait_for(lambda: "rc 0 $" in terminal.screen())
    assert terminal.told("cursor_flag") == "1"
    piped = andon("watch", "--simulate", "2", "-i", "100ms", "--count", "3")
    assert "\x1b" not in piped.out
    assert piped.out.count("\n") >= 6
