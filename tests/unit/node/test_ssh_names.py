"""Which hosts `--ssh` means, what no ssh is given, and why a host gives no answer."""

import pytest

from andon.errors import Gone, Invalid
from andon.node.ssh.failures import far_failure, not_connected
from andon.node.ssh.names import configured_hosts, hosts_of, listed_hosts
from andon.node.ssh.script import script

GROUPS = {"lab": ("lab1", "lab2"), "none": ()}


def test_hosts_are_in_the_order_given_and_each_once() -> None:
    found = hosts_of(["b,a", "@lab", "me@a,ssh://me@c:22", "lab1,a"], GROUPS, ["d", "b"])
    assert found == ["b", "a", "lab1", "lab2", "me@a", "ssh://me@c:22", "d"]


@pytest.mark.parametrize(
    "name",
    ["-oProxyCommand=touch x", "", "a b", "a\nb", "a\x1b[2Jb", "x" * 256, "\u202ea", "a\x00"],
)
def test_what_ssh_could_take_for_something_else_is_refused(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        hosts_of([name], {})
    assert caught.value.reason.isascii()
    assert caught.value.reason.isprintable()


@pytest.mark.parametrize(("name", "words"), [("@none", "is empty"), ("@x", "there is no group")])
def test_a_group_that_is_empty_or_unknown_lists_the_known_ones(name: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        hosts_of([name], GROUPS)
    assert caught.value.hint == "known: @lab, @none"


def test_a_list_has_comments_headings_variables_and_ranges() -> None:
    text = b"""# our machines
    lab1   # the old one
    [gpu]
    lab[08-10].example ansible_user=me
    web[1:2]

    [gpu:vars]
    ansible_port=22
    ; a comment of an inventory
    me@lab3
    """
    found = listed_hosts(text, "hosts")
    expected = ["lab1", "lab08.example", "lab09.example", "lab10.example", "web1", "web2"]
    assert found == [*expected, "me@lab3"]


@pytest.mark.parametrize("text", [b"\x7fELF\x00\x01", b"\xff\xfe\x00", b"# nothing\n", b""])
def test_a_file_that_is_no_list_is_refused(text: bytes) -> None:
    with pytest.raises(Invalid, match="hosts"):
        listed_hosts(text, "hosts")


def test_the_shell_is_offered_names_without_patterns() -> None:
    text = "Host lab1 lab2\n  HostName x\nhost=jump\nHost *.example !bad ?\nMatch all\n"
    assert configured_hosts(text) == ["lab1", "lab2", "jump"]


def test_the_script_is_constant_but_for_the_nonce() -> None:
    assert script("a" * 32).replace(b"a" * 32, b"b" * 32) == script("b" * 32)


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (255, "ssh: connect to host h port 22: Connection refused", "connection refused (ssh: "),
        (255, "ssh: connect to host h port 22: Connection timed out", "connection timed out after"),
        (255, "Host key verification failed.", "its host key is not known here"),
        (255, "kex_exchange_identification: Connection closed by remote host", "the connection"),
        (255, "Bad configuration option: x", "ssh failed (Bad configuration option: x)"),
        (1, "", "no shell there (hello)"),
        (255, "\x1b]0;evil\x07Connection refused", "connection refused (?]0;evil?Conn"),
    ],
)
def test_a_failure_is_said_in_our_words_and_in_those_of_ssh(
    code: int, said: str, words: str
) -> None:
    found = not_connected("h", code, b"hello\n", said.encode(), 5.0)
    assert found.reason.startswith(words)
    assert found.reason.isprintable()


def test_the_sentence_of_an_andon_there_keeps_its_kind() -> None:
    said = "Warning: x\nandon: there is no alert 'a'\nhint: alerts: none\n"
    found = far_failure(5, said)
    assert isinstance(found, Gone)
    assert (found.reason, found.hint) == ("there is no alert 'a'", "alerts: none")
    assert far_failure(1, "").reason == "andon there fails: it ended with exit code 1"
