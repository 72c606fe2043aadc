"""Secrets leave a command line; everything else stays as it was."""

import random
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.model import redaction
from andon.model.redaction import HIDDEN, MAX_CHARACTERS, is_secret_name, redact
from andon.units import printable
from tests.support.replaced import calls_of
from tests.support.rows import rows


@rows(
    ("arguments", "line"),
    [
        (["python", "train.py", "--token", "abc"], "python train.py --token ***"),
        (["x", "--token=abc", "--lr=1"], "x --token=*** --lr=1"),
        (["x", "-token", "abc"], "x -token ***"),
        (["x", "--api-key=abc"], "x --api-key=***"),
        (["x", "--api_key", "abc"], "x --api_key ***"),
        (["x", "--apiKey=abc"], "x --apiKey=***"),
        (["x", "--db-password", "abc", "go"], "x --db-password *** go"),
        (["x", "--pass=abc", "--pass", "abc"], "x --pass=*** --pass ***"),
        (["env", "FOO_SECRET=a b", "PASSWORD=x", "go"], "env FOO_SECRET=*** PASSWORD=*** go"),
        (["env", "PGPASSWORD=x", "MYSQL_PWD=y"], "env PGPASSWORD=*** MYSQL_PWD=***"),
        (["docker", "run", "-eHF_TOKEN=abc", "--env=K_TOKEN=d"],
         "docker run -eHF_TOKEN=*** --env=K_TOKEN=***"),
        (["x", "++wandb.api_key=abc"], "x ++wandb.api_key=***"),
        (["curl", "-H", "Authorization: Bearer abc"], "curl -H Authorization: ***"),
        (["curl", "--header=Authorization: Bearer abc"], "curl --header=Authorization: ***"),
        (["curl", "-HX-Api-Key: abc"], "curl -HX-Api-Key: ***"),
        (["curl", "-u", "bob:abc", "http://h"], "curl -u *** http://h"),
        (["x", "postgres://u:p@h/db"], "x postgres://u:***@h/db"),
        (["x", "postgres://u:p/@:w@h/db"], "x postgres://u:***@h/db"),
        (["x", "https://u:123@h:8080/"], "x https://u:***@h:8080/"),
        (["x", "https://h/f?a=1&token=abc&sig=d%2F#top"], "x https://h/f?a=1&token=***&sig=***#top"),
        (["x", "https://h/?X-Amz-Signature=abc&X-Amz-Date=1"],
         "x https://h/?X-Amz-Signature=***&X-Amz-Date=1"),
        (["x", "https://hooks.slack.com/services/T0/B0/abc"], "x https://hooks.slack.com/***"),
        (["x", '{"api_key": "a b", "n": 3}'], 'x {"api_key": ***, "n": 3}'),
        (["sh", "-c", "cd /; TOKEN=abc x --password 'a b' -n 3"],
         "sh -c cd /; TOKEN=*** x --password *** -n 3"),
        (["sh", "-c", "curl -H 'Authorization: Bearer abc' http://h"],
         "sh -c curl -H 'Authorization: ***' http://h"),
        (["sshpass", "-p", "abc", "ssh", "h"], "sshpass -p *** ssh h"),
        (["sudo", "mysql", "-pabc", "db"], "sudo mysql -p*** db"),
        (["redis-cli", "-a", "abc"], "redis-cli -a ***"),
        (["x", "--token"], "x --token"),
        (["x", "--token", ""], "x --token "),
        (["x", "--token", "--looks-like-a-flag"], "x --token ***"),
        (["x", "--token", "--secret", "abc"], "x --token *** ***"),
        ([], ""),
    ],
)  # fmt: skip
def test_a_secret_is_hidden_and_its_neighbours_are_not(arguments: list[str], line: str) -> None:
    assert redact(arguments) == line


HARMLESS = [
    "--tokenizer gpt2", "--max-tokens 512", "--num-tokens=3", "--tokens 5", "--max_new_tokens=9",
    "key.py", "--key 2", "--keyframes 3", "--author bob", "--eos-token <eos>", "--pad-token-id 0",
    "--pad_token=x", "--num-tokens-per-batch 8", "--token-budget 512", "--password-file /p",
    "--secret-name db", "--token-file t", "--no-auth x", "-p 22", "-p", "-u", "-pass 1",
    "PWD=/home/bob", "OLDPWD=/x", "PATH=/bin:/usr/bin", "CUDA_VISIBLE_DEVICES=0,1", "--port=80",
    "task-0123456789abcdef", "disk-0123456789abcdef0123", "sk-learn", "hf_model_name",
    "http://h:8080/a@b", "git@github.com:o/r.git", "s3://bucket/key", "a.b@c.d", "--lr 1e-4",
    "--passes=2", "--compass n", "--bypass", "--monkey=1", "--keyboard us", "http://h/?page=2&q=x",
    "--public-key=id.pub", "--sort-key name", "eyJ", "bearer", "--authors a,b", "authority: high",
    "--one-pass 1", "'quoted text'", "--use-cache true", "é", "--secretary bob", "module.weight=3",
]  # fmt: skip


@rows("words", HARMLESS)
def test_a_harmless_line_is_unchanged(words: str) -> None:
    assert redact(["python", *words.split(" ")]) == f"python {words}"
    assert redact([f"python {words}"]) == f"python {words}"


@given(st.lists(st.sampled_from(HARMLESS), max_size=8))
def test_harmless_words_together_are_unchanged(lines: list[str]) -> None:
    words = " ".join(["python", *lines])
    assert redact(words.split(" ")) == words


@pytest.mark.parametrize(
    "name",
    ["token", "HF_TOKEN", "apiKey", "AWS_SECRET_ACCESS_KEY", "SECRET_KEY_BASE", "db.password1"],
)
def test_a_name_is_secret_by_its_words(name: str) -> None:
    assert is_secret_name(name)


PLAIN = string.ascii_letters + string.digits
# Marked at both ends, so that finding one in a line is no accident.
SECRETS = st.text(PLAIN + "-_.~+/=@:!#$%^*() ", min_size=1, max_size=40).map(lambda s: f"qZ{s}9Qz")
WORDY = st.text(PLAIN + "-_", min_size=20, max_size=60)
FLAGS = [
    "--token", "--api-key", "--password", "--passwd", "--secret", "--credentials", "--auth-token",
    "--access-key", "--hf-token", "--wandb-api-key", "--client_secret", "--passphrase", "--bearer",
]  # fmt: skip
VARIABLES = [
    "FOO_SECRET",
    "PASSWORD",
    "HF_TOKEN",
    "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "DB_PASS",
]
SURROUNDINGS = st.lists(
    st.sampled_from([w for line in HARMLESS for w in line.split(" ")]), max_size=4
)


@given(
    SURROUNDINGS, st.sampled_from(FLAGS), SECRETS | SECRETS.map(lambda s: "--" + s), SURROUNDINGS
)
def test_a_secret_after_a_flag_never_appears(
    before: list[str], flag: str, secret: str, after: list[str]
) -> None:
    for given_as in ([flag, secret], [f"{flag}={secret}"]):
        assert secret not in redact(["x", *before, *given_as, *after])


@given(SURROUNDINGS, st.sampled_from(VARIABLES), SECRETS, SURROUNDINGS)
def test_a_secret_in_a_variable_never_appears(
    before: list[str], name: str, secret: str, after: list[str]
) -> None:
    for given_as in ([f"{name}={secret}"], ["-e", f"{name}={secret}"], [f"--env={name}={secret}"]):
        assert secret not in redact(["env", *before, *given_as, *after])


@given(SECRETS, st.sampled_from(["Authorization: Bearer ", "authorization:", "X-Auth-Token: "]))
def test_a_secret_in_a_header_never_appears(secret: str, header: str) -> None:
    for given_as in (
        ["-H", header + secret],
        ["--header", header + secret],
        [f"--header={header}{secret}"],
    ):
        assert secret not in redact(["curl", *given_as, "http://h"])


@given(st.text(PLAIN + "-_.~+/=:!$%^*()@", min_size=1).map(lambda s: f"qZ{s}9Qz"))
def test_a_password_in_a_url_never_appears(secret: str) -> None:
    for text in (
        f"postgres://u:{secret}@h/db",
        f"--url=redis://:{secret}@h:6379/0",
        f"sh x://u:{secret}@h",
    ):
        assert secret not in redact(["x", text])


@given(st.text(PLAIN + "-_.~+/=:!$%^*()@", min_size=1).map(lambda s: f"qZ{s}9Qz"))
def test_a_secret_in_a_query_never_appears(secret: str) -> None:
    for name in ("token", "sig", "access_token", "key", "api_key", "X-Amz-Signature"):
        assert secret not in redact(
            ["x", f"https://h/p?a=1&{name}={secret}&b=2", f"http://h?{name}={secret}"]
        )


@given(
    WORDY, st.sampled_from(["sk-", "hf_", "ghp_", "gho_", "github_pat_", "AKIA", "glpat-", "xoxb-"])
)
def test_a_value_with_a_known_look_never_appears(body: str, prefix: str) -> None:
    letters = body.upper() if prefix == "AKIA" else body
    secret = prefix + (
        letters if prefix in ("sk-", "glpat-", "xoxb-") else re.sub("[-_]", "x", letters)
    )
    secret = secret.replace("x", "X") if prefix == "AKIA" else secret
    for arguments in (
        [secret],
        [f"--model={secret}"],
        ["sh", "-c", f"x {secret} y"],
        [f"u:{secret}@h"],
    ):
        assert secret not in redact(["x", *arguments])


@given(WORDY, WORDY, WORDY)
def test_a_web_token_never_appears(head: str, body: str, signature: str) -> None:
    secret = f"eyJ{head}.{body}.{signature}"
    assert secret not in redact(["x", secret, f"--jwt={secret}"])
    assert signature not in redact(["x", f"--jwt={secret}"])


ARGUMENTS = st.lists(
    st.text(max_size=20)
    | st.sampled_from(
        [*FLAGS, *HARMLESS, "--token=", "Authorization:", "://a:b@", "?sig=", "TOKEN=x", "curl"]
    )
    | SECRETS,
    max_size=8,
)


@given(ARGUMENTS)
def test_any_arguments_give_one_bounded_printable_line(arguments: list[str]) -> None:
    line = redact(arguments)
    assert line.isprintable()
    assert len(line) <= MAX_CHARACTERS


@given(ARGUMENTS)
def test_a_redacted_line_stays_as_it_is(arguments: list[str]) -> None:
    line = redact(arguments)
    assert redact(line.split(" ")) == line


FORMS = (
    "sk-", "hf_", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "xoxb-", "AKIA",
    "ASIA", "AIza", "npm_", "pypi-", "hooks.slack.com/", "-----BEGIN PRIVATE KEY-----",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_of_each_form_is_hidden_where_nothing_else_marks_it(form: str) -> None:
    assert "Q" * 32 not in redact(["x", form + "Q" * 32])


def test_control_characters_become_visible() -> None:
    assert (
        redact(["a\nb", "\x1b[31m", "\x00", "\u202e", "\udc80"])
        == r"a b \x1b[31m \x00 \u202e \udc80"
    )
    assert printable("naïve ✓") == "naïve ✓"


def test_a_long_line_is_cut_and_says_so() -> None:
    line = redact(["x"] * 10_000)
    assert len(line) == MAX_CHARACTERS
    assert line.endswith("…")


PIECES = (
    "a", " ", "://", "://a:", "://u:p", "@", "--a ", "--token ", "a=", "token=", 'token="',
    "token='", "?a=", "?token=", "&sig=x", "Authorization:", "Authorization: ", "cookie ", "x-",
    "x-a-key", "eyJ-", "eyJaaaaa.", "bearer ", "bearer", "sk-", "npm_", "-----BEGIN ",
    "-----BEGIN A", "PRIVATE KEY", "a.", '"a":', "\"a\":'", "'a':\"", '"token":"', "-",
    "hooks.slack.com/", "\x1b", "\U000e0001", "A", "aB", "+", "=", "'", '"',
)  # fmt: skip
"""What the patterns look for, and what nearly is that."""
MANY = 100_000  # characters: a cost that grows with their square would take a minute


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", PIECES)
def test_the_cost_of_a_hostile_line_grows_no_faster_than_the_line(piece: str) -> None:
    redact(["x", "@" + piece * (MANY // len(piece))], 10 * MANY)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(4))
def test_no_two_kinds_of_pieces_make_it_slow_together(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(5):
        pattern = "".join(chance.choices(PIECES, k=chance.randrange(2, 5)))
        redact(["x", pattern * (MANY // len(pattern))], 10 * MANY)


def test_more_than_can_be_shown_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long an argument is, and however much longer its escapes make it."""
    seen = calls_of(monkeypatch, redaction, "_argument", lambda text, *_: len(text))
    redact(["x", "\U000e0001 " * 100_000])
    assert sum(seen) <= redaction.READ_CHARACTERS


SECRET = "qZ8hunter2kJ7"
EVIDENCE_BEHIND = (
    f"postgres://u:{SECRET}@h/db",
    f"https://{SECRET}{SECRET}@h",
    f'{{"password": "a {SECRET} b"}}',
    f"--password '{SECRET} {SECRET}'",
    f"TOKEN={SECRET}",
    f"curl -H 'Authorization: Basic {SECRET}'",
    f"sk-{SECRET}{SECRET}",
    f"eyJ{SECRET}.{SECRET}.{SECRET}",
    f"bearer {SECRET}",
)


@pytest.mark.parametrize("text", EVIDENCE_BEHIND)
def test_a_cut_through_a_secret_shows_no_part_of_it(text: str) -> None:
    """What tells a secret may stand behind it, and be cut off."""
    hidden = [SECRET[n : n + 4] for n in range(len(SECRET) - 3)]
    for room in range(2, len(text) + 12):
        for arguments in ([text], ["x", text], ["sh", "-c", f"go {text} on"]):
            line = redact(arguments, room)
            assert not any(part in line for part in hidden), (room, line)


def test_a_line_that_is_cut_says_so() -> None:
    assert redact(["python", "train.py"], 12) == "python …"
    assert redact(["python", "-c", "x=1+2 x"], 12) == "python -c …"
    assert redact(["python", "ab c", "de"], 12) == "python ab c …"
    assert redact(["p", "abc def ghi jkl"], 12) == "p abc def …"
    assert redact(["python", "abcd"]) == "python abcd"


def test_the_mark_is_what_people_expect() -> None:
    assert HIDDEN == "***"
