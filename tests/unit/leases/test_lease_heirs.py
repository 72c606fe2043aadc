"""What is said about a lease whose holder was killed while its command keeps the lock."""

import fcntl
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.errors import Gone
from andon.leases.book.lock_holders import open_holder
from tests.support.sharing_parts import lease, owner

NO_SUCH_PID = 2**22 + 1  # above the kernel's largest


def test_the_process_that_keeps_the_lock_is_named(tmp_path: Path) -> None:
    file = tmp_path / "k7qm2-1.lease"
    held = lease(0, owner=replace(owner(), pid=NO_SUCH_PID))
    with file.open("w") as opened:
        with pytest.raises(Gone) as unlocked:
            open_holder(held, file, os.getuid())
        fcntl.flock(opened, fcntl.LOCK_EX)
        with pytest.raises(Gone) as locked:
            open_holder(held, file, os.getuid())
        with pytest.raises(Gone) as of_another_user:
            open_holder(held, file, os.getuid() + 1)
    waits = "its devices become available when its job ends"
    assert unlocked.value.hint == of_another_user.value.hint == waits
    assert locked.value.hint == f"{waits}; to stop it: kill {os.getpid()}"
