"""Checks the devices of a job before it starts: bad ones are given back and others taken, once."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from andon.checks.checking import check_placement
from andon.checks.rules.before_work import AfterCheck, after_check, bad_cards, sentence, unusable
from andon.errors import AndonError
from andon.host.files import make_private, open_regular
from andon.jobs.folder import JobsFolder
from andon.jobs.launching import Supervisor, SupervisorPool
from andon.jobs.taking import BlockReason, DispatchRound
from andon.leases.placement import Grant
from andon.model.check import CardResult
from andon.sampling.sampler import Sampler


class CheckedLease(Struct):
    """A lease whose devices are checked in a thread, and the supervisor that is to get it."""

    attempt: int
    grant: Grant
    supervisor: Supervisor
    results: Sequence[CardResult] = ()
    stuck: bool = False  # a process in the kernel keeps the lock of the lease
    error: str = "see dispatcher.log"
    ended: bool = False
    unwanted: bool = False

    def check(self, sampler: Sampler) -> None:
        try:
            self.results, self.stuck = check_placement(sampler, self.grant, lambda: self.unwanted)
        except (AndonError, OSError) as error:
            self.error = str(error)
        finally:
            self.ended = True

    def give_back(self, pool: SupervisorPool) -> None:
        if self.stuck:
            self.supervisor.kill()
            self.grant.held.hold.close()
        else:
            self.grant.release()
            pool.give(self.supervisor)


class JobChecks:
    """The checks of a dispatcher's jobs."""

    def __init__(self, folder: JobsFolder) -> None:
        self._folder = folder
        self._running: dict[int, CheckedLease] = {}
        self._bad: dict[int, list[CardResult]] = {}  # given back before others are tried
        self._settled = set[int]()  # jobs that got no others: slow devices will do

    def __contains__(self, number: int) -> bool:
        return number in self._running

    def explain(self, found: DispatchRound) -> None:
        """Adds what was wrong with the devices that a waiting job gave back."""
        for number, bad in self._bad.items():
            if (why := found.why.get(number)) is not None:
                found.why[number] = BlockReason(f"{sentence(bad)}; {why.reason}", why.details)

    def texts(self) -> Iterator[tuple[int, str]]:
        """Yields why jobs wait whose devices are being checked."""
        for number, one in self._running.items():
            yield number, f"checks GPU {one.grant.label} first"

    def avoided(self) -> Mapping[int, frozenset[str]]:
        """Returns the devices that jobs are to avoid where there are others."""
        unsettled = (
            (number, bad) for number, bad in self._bad.items() if number not in self._settled
        )
        return {number: frozenset(one.uuid for one in bad) for number, bad in unsettled}

    def blocked(self, number: int) -> None:
        """A job got no others: it waits for some if its own were broken, and takes slow ones."""
        if number in self._bad and not unusable(self._bad[number]):
            self._settled.add(number)

    def begin(self, number: int, one: CheckedLease, sampler: Sampler) -> None:
        self._running[number] = one
        threading.Thread(target=one.check, args=(sampler,), daemon=True).start()

    def over(self, is_ready: Callable[[int], bool]) -> Iterator[tuple[int, CheckedLease]]:
        """Yields those whose check has ended, and forgets them; ends those of jobs that are not to
        start any more."""
        for number, one in list(self._running.items()):
            one.unwanted = not is_ready(number)
            if one.ended:
                yield number, self._running.pop(number)

    def judge(self, number: int, one: CheckedLease) -> tuple[AfterCheck, str]:
        """Returns what to do, and why a job is refused; its log says what was found."""
        before = self._bad.get(number, [])
        found, bad = after_check(one.results, bool(before)), bad_cards(one.results)
        lines = [f"GPU {each.label}: {each.verdict}: {each.text}" for each in one.results]
        lines = lines or [f"the GPUs were not checked: {one.error}"]
        if found is AfterCheck.TAKE_OTHERS:
            self._bad[number] = bad
            lines.append("taking another")
        else:
            self.forget(number)
        self._log(number, one.attempt, lines)
        return found, sentence([*before, *bad])

    def forget(self, number: int) -> None:
        self._bad.pop(number, None)
        self._settled.discard(number)

    def _log(self, number: int, attempt: int, lines: Sequence[str]) -> None:
        """Writes at the beginning of the attempt's output, which its supervisor continues."""
        with suppress(OSError):
            make_private(self._folder.attempt(number, attempt))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with os.fdopen(open_regular(self._folder.output(number, attempt), flags), "wb") as file:
                file.write("".join(f"andon: {line}\n" for line in lines).encode(errors="replace"))
