"""How long a process waited for a processor, from the kernel's files."""

from pathlib import Path

from andon.host.system import starved_seconds, waited_seconds


def test_the_thread_that_waited_longest_counts_and_unknown_is_nothing(tmp_path: Path) -> None:
    for thread, text in (("7", "5000 1500000000 3\n"), ("8", "1 2500000000 1\n"), ("9", "")):
        (tmp_path / "7/task" / thread).mkdir(parents=True)
        (tmp_path / "7/task" / thread / "schedstat").write_text(text)
    assert starved_seconds(7, str(tmp_path)) == 2.5
    assert starved_seconds(8, str(tmp_path)) == 0.0
    assert [waited_seconds(text) for text in (b"0 0 0", b"1", b"1 x 2")] == [0.0] * 3
