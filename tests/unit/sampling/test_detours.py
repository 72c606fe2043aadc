"""A vendor that is read in a second way, or in none: what is said, and what to do."""

import pytest

from andon.model.device import Fault, FaultCode
from andon.sampling.rules.roster import both_failed, used_instead

MISSING = Fault(
    "nvidia", "the library was not found", "no NVIDIA driver is installed", FaultCode.NO_DRIVER
)
MISMATCH = Fault("nvidia", "versions differ", "reboot", FaultCode.VERSION_MISMATCH)
NOT_LOADED = Fault("nvidia", "the driver is not loaded", "modprobe it", FaultCode.NO_DRIVER)
PRINTED = Fault("nvidia", "nvidia-smi printed nothing", "run it to see")
SMI = "nvidia-smi"


def test_a_command_that_works_disproves_that_no_driver_is_installed() -> None:
    found = used_instead(MISSING, SMI)
    assert found.reason == "the library was not found; using nvidia-smi instead"
    assert found.code == FaultCode.OTHER_BACKEND
    assert MISSING.hint not in found.hint
    assert "library is missing" in found.hint
    assert "andon doctor" in found.hint


def test_any_other_hint_stays_while_the_command_works() -> None:
    assert used_instead(MISMATCH, SMI).hint == MISMATCH.hint


@pytest.mark.parametrize(
    ("first", "second", "reason", "hint", "code"),
    [
        (MISSING, NOT_LOADED, "the library was not found; nvidia-smi: the driver is not loaded",
         "modprobe it", FaultCode.NO_DRIVER),
        (MISSING, MISMATCH, "the library was not found; nvidia-smi: versions differ", "reboot",
         FaultCode.VERSION_MISMATCH),
        (MISSING, PRINTED, "the library was not found; nvidia-smi printed nothing",
         "run it to see", FaultCode.NO_DRIVER),
        (MISMATCH, NOT_LOADED, "versions differ; nvidia-smi: the driver is not loaded", "reboot",
         FaultCode.VERSION_MISMATCH),
        (MISMATCH, MISMATCH, "versions differ", "reboot", FaultCode.VERSION_MISMATCH),
    ],
)  # fmt: skip
def test_where_both_fail_both_reasons_are_said_with_the_fitting_hint(
    first: Fault, second: Fault, reason: str, hint: str, code: FaultCode
) -> None:
    found = both_failed(first, second, SMI)
    assert (found.source, found.reason, found.hint, found.code) == ("nvidia", reason, hint, code)
