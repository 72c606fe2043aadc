"""Words for a shell, and whole numbers that other programs print."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.units import sh, shell_line, whole_number

ODD = ["$(touch HIT)", "`a`", "a b", "'", '"', "\\", "", "-rf", "~", "*", "#a", "é 漢字", "a;b"]


@pytest.mark.process
def test_a_shell_reads_every_word_as_it_was() -> None:
    done = subprocess.run(
        ["sh", "-c", shell_line("printf", r"%s\n", *ODD)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:-1] == ODD


@given(st.text())
def test_whatever_a_word_has_the_line_is_one_of_printable_words(text: str) -> None:
    assert len(shlex.split(sh(text))) == 1
    assert sh(text).isprintable()


@pytest.mark.parametrize("odd", ["a\nb", "\x1b[2J", "\u202e", "\ud800", "\r", "\x9b"])
def test_what_a_terminal_would_act_on_is_not_in_a_line(odd: str) -> None:
    assert shell_line("rm", odd) == "rm '(a name with control characters)'"


def test_a_plain_word_is_not_quoted() -> None:
    assert shell_line("ssh", "-t", "me@lab1", "andon", 4711) == "ssh -t me@lab1 andon 4711"


@pytest.mark.parametrize("text", ["9" * 5000, "²", "٣", "", "-1", "+1", "1_0", " 1", "1.0"])
def test_anything_but_some_digits_is_no_whole_number(text: str) -> None:
    assert whole_number(text) is None
    assert whole_number("0042") == 42
