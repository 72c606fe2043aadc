"""Values in a text for a shell, which real shells then run."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from andon.errors import Invalid
from andon.work.rules.shell_text import filled_command

pytestmark = pytest.mark.process

HOSTILE = (
    "$(touch HIT)", "`touch HIT`", "'; touch HIT; '", '"; touch HIT; "', "'\"$(touch HIT)\"'",
    "'\"'\"'$(touch HIT)", "; touch HIT", "| touch HIT", "& touch HIT &", "x\ntouch HIT\n",
    "EOF\ntouch HIT", "EOF", "E", "${HOME}", "$HOME", "\\", "\\\\", "\\'", '\\"', "-rf", "--", "-n",
    "", " ", "a b  c", "*", "?[a]", "~", "#x", "!!", "é ü 漢字 🙂", "\t", "a\n\n", "%s%n", "{y}",
    "andon_1", "${andon_1}", "$1", ")", "(", "((", "$((1+1))", "a[$(touch HIT)]", "0.1", "done",
)  # fmt: skip
TEXTS = {
    "alone": "show {x}",
    "as a part of a word": "show a/{x}/b",
    "in double quotes": 'show "got {x}"',
    "in single quotes": "show 'got {x}'",
    "in both": "show 'a \"{x}\"' \"b '{x}'\"",
    "after an escaped quote": 'show "a \\" {x}" \\\' {x}',
    "in an assignment": 'a={x}; show "$a"',
    "in a substitution": 'show "$(printf %s. {x})" "$(printf %s. "{x}")" "$(printf %s. \'{x}\')"',
    "in backticks": "a=`printf %s. {x}`; show \"$a\"",
    "in a subshell": "( (show {x}) )",
    "after a comment": "# don't (\nshow {x} # isn't \"\nshow '{x}'",
    "in a function": 'f() { show "$1" {x}; }; f "a b"',
    "in a default": 'show "${none:-{x}}"',
    "in a here-document": "cat <<EOF\ngot {x} and '{x}'\n{x}\nEOF\nshow {x}",
    "in a quoted here-document": "cat <<'EOF'\n{x}$HOME `a` \\n \\\\ \"{x}\"\nEOF\nshow {x}",
    "in an indented here-document": "cat <<-\\EOF\n\t{x}\n\tEOF\nshow '{x}'",
    "in two here-documents": "cat <<A; cat <<'B'\n{x}\nA\n{x}\nB\nshow {x}",
    "in a document in quotes": 'show "$(cat <<E\n{x}.\nE\n)"',
    "in a case": "case {x} in {x}) show same;; *) show other;; esac",
    "beside its own words": 'show "$#" "$0" {x} {y}',
}  # fmt: skip
SHOW = 'show() { for one in "$@"; do printf \'<%s>\' "$one"; done; }; '
SHELLS = tuple(name for name in ("sh", "bash", "dash") if shutil.which(name))


def run(words: "tuple[str, ...]", folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


def expected(name: str, x: str) -> str:
    """What each text prints, by Python."""
    return {
        "alone": f"<{x}>",
        "as a part of a word": f"<a/{x}/b>",
        "in double quotes": f"<got {x}>",
        "in single quotes": f"<got {x}>",
        "in both": f"<a \"{x}\"><b '{x}'>",
        "after an escaped quote": f"<a \" {x}><'><{x}>",
        "in an assignment": f"<{x}>",
        "in a substitution": f"<{x}.>" * 3,
        "in backticks": f"<{x}.>",
        "in a subshell": f"<{x}>",
        "after a comment": f"<{x}><{x}>",
        "in a function": f"<a b><{x}>",
        "in a default": f"<{x}>",
        "in a here-document": f"got {x} and '{x}'\n{x}\n<{x}>",
        "in a quoted here-document": f'{x}$HOME `a` \\n \\\\ "{x}"\n<{x}>',
        "in an indented here-document": f"{x}\n<{x}>",
        "in two here-documents": f"{x}\n{x}\n<{x}>",
        "in a document in quotes": f"<{x}.>",
        "in a case": "<same>",
        "beside its own words": f"<0></bin/sh><{x}><a b>",
    }[name]


@pytest.mark.parametrize("name", TEXTS)
def test_a_value_is_one_word_wherever_it_stands_in_a_text_for_a_shell(
    name: str, tmp_path: Path
) -> None:
    known = {f"x{number}": value for number, value in enumerate(HOSTILE)}
    each = [TEXTS[name].replace("{x}", f"{{{one}}}") for one in known]
    text = SHOW + "\nprintf NEXT\n".join(each)
    found = run(filled_command(("/bin/sh", "-c", text), {**known, "y": "a b"}), tmp_path)
    assert found.split("NEXT") == [expected(name, value) for value in HOSTILE]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shell", SHELLS)
def test_no_text_of_odd_pieces_makes_a_value_run(shell: str, tmp_path: Path) -> None:
    """Texts in which nobody knows what is quoted: the value may be lost, and is never run."""
    pieces = ("'", '"', "`", "$(", ")", "(", "<<E\n", "<<'E'\n", "\nE\n", "\\", "#", "\n", " ",
              "$((", "))", "{x}", "{x}", "echo ", "case a in a) ", "esac", "${a")  # fmt: skip
    chance = random.Random(7)
    for _ in range(60):
        text = "".join(chance.choices(pieces, k=chance.randint(2, 14)))
        value = chance.choice(HOSTILE[:10])
        try:
            words = filled_command((shell, "-c", text), {"x": value})
        except Invalid:
            continue
        subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, stdin=-3)
        assert not (tmp_path / "HIT").exists(), (text, value)


def test_a_plain_value_stays_in_the_text_where_lists_show_it() -> None:
    words = filled_command(("/bin/sh", "-c", "t.py --lr {lr} > 'out/{lr}'"), {"lr": "0.1"})
    assert words == ("/bin/sh", "-c", "t.py --lr 0.1 > 'out/0.1'")


def test_only_a_number_stands_in_a_sum() -> None:
    text = ("bash", "-c", "echo $(( {n} * (2 << 1) )) {s}")
    assert run(filled_command(text, {"n": "4", "s": "a  b"}), Path()) == "16 a  b\n"
    with pytest.raises(Invalid, match="not a number"):
        filled_command(text, {"n": "a[$(touch HIT)]", "s": ""})


def test_words_that_a_shell_gets_stay_behind_the_values(tmp_path: Path) -> None:
    words = filled_command(("sh", "-c", SHOW + 'show "$0" "$@" {x}', "me", "{x}", "b"), {"x": "$A"})
    assert run(words, tmp_path) == "<me><$A><b><$A>"


def test_a_value_that_is_the_whole_text_is_meant_as_one() -> None:
    assert filled_command(("sh", "-c", "{x}"), {"x": "echo a; echo b"})[2] == "echo a; echo b"


def test_braces_of_the_shell_stay() -> None:
    words = filled_command(("sh", "-c", "echo ${x} {x} {other}"), {"x": "1"})
    assert words[2] == "echo ${x} 1 {other}"
