"""Who listens on a port: this user, a service, or somebody who may pose as one."""

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.host.listeners import listeners, parse_listeners, trusted_listener

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:66FE 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 20 1 0
   1: 0100007F:66FE 0100007F:D0C2 01 00000000:00000000 00:00000000 00000000  1002        0 21 1 0
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 22 1 0
"""


def test_only_those_who_listen_count() -> None:
    assert parse_listeners(TABLE, 0x66FE) == {1001}
    assert parse_listeners(TABLE, 22) == {0}
    assert parse_listeners(TABLE, 23) == set()


@given(st.text(), st.integers(0, 65535))
def test_no_text_breaks_it(text: str, port: int) -> None:
    parse_listeners(text, port)


@pytest.mark.parametrize(
    ("uid", "trusted"), [(1001, True), (1002, False), (0, False)], ids=["own", "other", "root"]
)
def test_a_port_of_another_person_is_not_trusted(tmp_path: Path, uid: int, trusted: bool) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/tcp").write_text(TABLE)
    assert trusted_listener(0x66FE, uid, tmp_path) == trusted
    assert trusted_listener(22, uid, tmp_path), "root's"
    assert not trusted_listener(23, uid, tmp_path), "nobody's"


def test_this_machines_own_table_is_read() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert os.geteuid() not in listeners(port)
        listening.listen()
        assert listeners(port) == {os.geteuid()}
        assert trusted_listener(port, os.geteuid())
