"""Every meaning of idle has one name and one place."""

import re
from pathlib import Path

from andon.doctor.rules.selftest.load import choose
from andon.model import utilisation
from andon.model.utilisation import Band, band
from tests.support.snapshots import farm, h200
from tests.support.sources import sources


def test_no_other_module_says_how_low_idle_is() -> None:
    defined = re.compile(
        r"^[ \t]*_?(?:IDLE|ZERO|BARELY|SCHEDULABLE)\w*\s*(?::[^=\n]*)?=", re.MULTILINE
    )
    compared = re.compile(r"utilization_percent (?:==|<=|>|<) \d")
    for path, text in sources().items():
        if path.endswith(("/utilisation.py", "/conditions/index.py")):  # the index is generated
            continue
        named = [one for one in defined.findall(text) if "PERCENT" in one]
        assert (named, compared.findall(text)) == ([], []), path


def test_the_meanings_differ_and_say_why() -> None:
    values = [
        utilisation.ZERO_READING,
        utilisation.BARELY_BUSY_PERCENT,
        utilisation.READING_LOAD_PERCENT,
        utilisation.SCHEDULABLE_IDLE_PERCENT,
    ]
    assert values == sorted(set(values))
    source = Path(utilisation.__file__).read_text()
    assert len(re.findall(r'Final = \d+\n"""', source)) == len(values)


def test_one_per_cent_is_in_use_by_word_and_free_for_a_test_load() -> None:
    status = h200(0, utilization_percent=1)
    assert band(1) is Band.LIGHT
    snapshot = farm()
    assert (
        choose(type(snapshot)(snapshot.node, snapshot.at, devices=(status,)), {status.device.uuid})[
            0
        ]
        is status
    )
