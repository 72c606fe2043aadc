"""Requests at the same time share one answer only where their callers see the same."""

from collections.abc import Callable, Hashable
from pathlib import Path

import pytest
from fastapi import Request

from andon.access.roles import Identity, Role
from andon.web.history_reader import HistoryReader
from tests.support.snapshots import farm, uuid
from tests.support.web_parts import Parts, served


def test_who_had_a_process_before_shares_no_explanation_with_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = list[Hashable]()

    async def read(
        _: HistoryReader, request: Request, key: Hashable, work: Callable[[], bytes]
    ) -> bytes:
        keys.append(key)
        return work()

    monkeypatch.setattr(HistoryReader, "read", read)
    parts = Parts(tmp_path, [farm()])
    with served(parts) as caller:
        for name in ("zoe", "yan"):  # without a process in the last minutes
            secret = parts.keys.exchange(parts.keys.new_code(Identity(Role.USER, 4321, name)))
            signed_in = {"Authorization": f"Bearer {secret}"}
            found = caller.get(f"/api/devices/{uuid(0)}/why", headers=signed_in)
            assert found.status_code == 200, found.text
    assert len(set(keys)) == 2
