"""Whatever limits and folders a command meets, it says so in a sentence."""

import os

import pytest

from tests.fuzz.chance import PARTS, SECONDS, SEED

SHARE = SECONDS / PARTS


@pytest.mark.timeout(SHARE + 180)
def test_no_limit_and_no_folder_ends_in_a_traceback_or_in_silence() -> None:
    """In a process of its own, which has one thread and can be forked."""
    child = os.fork()
    if not child:
        code = 1
        try:
            from tests.fuzz import environments

            environments.play(SEED, SHARE)
            code = 0
        except BaseException as exc:  # noqa: BLE001 (told below)
            os.write(2, f"{exc}\n".encode(errors="replace"))
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
