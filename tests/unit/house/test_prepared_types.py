"""What msgspec reads into a type goes through `prepared`: two threads that use a type for the first
time at once crash the process."""

import re

from tests.support.sources import sources

READS = re.compile(r"(?<![\w.])(?:msgspec\.)?convert\((.*)|\bdecode\(.*\btype=(.*)", re.MULTILINE)
THE_PLACE = "model/codec.py"


def test_every_type_is_prepared_before_a_value_is_read_into_it() -> None:
    from_msgspec = {
        path: text
        for path, text in sources().items()
        if re.search(r"from msgspec import .*\bconvert\b|msgspec\.(?:convert|json)", text)
    }
    assert len(from_msgspec) > 5
    found = {
        f"{path}: {''.join(words)}"
        for path, text in from_msgspec.items()
        if not path.endswith(THE_PLACE)
        for words in READS.findall(text)
        if "prepared(" not in "".join(words)
    }
    assert found == set()
