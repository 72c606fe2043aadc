"""What supervisors use instead of larger modules does the same as those."""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.standalone import STANDALONE, quick_parts
from andon.standalone.quick_parts import dumps, loads, read_most, receive_descriptors, suppress
from tests.support.replaced import fails

texts = st.text(st.characters())  # lone surrogates too: a path or a variable may have them
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_json_is_read_and_written_as_json_does(value: Any) -> None:
    assert json.loads(dumps(value)) == value
    assert loads(json.dumps(value).encode() + b"\n") == value
    assert loads(json.dumps(["ü", value], ensure_ascii=False).encode(errors="replace"))[0] == "ü"


@pytest.mark.parametrize("error", [AttributeError("array_hook"), TypeError("not callable")])
def test_json_is_read_and_written_where_the_parts_in_c_are_others(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.15 wanted one attribute more, and every supervisor died."""
    fails(monkeypatch, quick_parts, "make_scanner", error)
    fails(monkeypatch, quick_parts, "make_encoder", TypeError("takes 10 arguments"))
    assert loads(dumps({"a": [1, None, "ü"]}).encode()) == {"a": [1, None, "ü"]}
    with pytest.raises(ValueError):
        loads(b"{} {}")


@pytest.mark.parametrize("content", [b"", b"\n", b"{", b"[1,]", b"nonsense", b"{} {}", b"\xff"])
def test_what_is_not_json_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):
        loads(content)


def test_only_the_named_exceptions_are_ignored() -> None:
    with suppress(OSError, KeyError):
        raise FileNotFoundError
    with pytest.raises(TypeError), suppress(OSError):
        raise TypeError


def test_descriptors_come_with_a_message() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        read, write = os.pipe()
        socket.send_fds(ours, [b"hello"], [read, write])
        data, found = receive_descriptors(theirs, 100, 2)
    assert data == b"hello"
    os.write(found[1], b"x")
    assert os.read(read, 1) == b"x"
    for descriptor in (read, write, *found):
        os.close(descriptor)


@pytest.mark.process
def test_a_supervisor_imports_little() -> None:
    code = "import sys; sys.path.append(sys.argv[1]); import job_supervisor; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", code, str(STANDALONE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    heavy = {"collections", "contextlib", "enum", "functools", "json", "re", "signal", "socket"}
    assert not heavy & set(done.stdout.split())


def test_what_never_ends_is_not_read_for_ever() -> None:
    assert len(read_most(bytes, 3_000_000)) == 3_000_000
    pieces = iter([b"ab", b"c", b""])
    assert read_most(lambda size: next(pieces), 100) == b"abc"
