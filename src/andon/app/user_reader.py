"""Reads one user's jobs and runs for root's server, as that user: see web/users/processes.py.

It imports what it needs as root, gives up root's rights for good, and then answers questions, one
per line. It starts no process: the kernel forbids it. All that it writes are the marks in the
user's own job folders that `andon cancel`, `retry`, `requeue` and `move` make, and the index of
runs.
"""

import base64
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import asdict

from andon.app.runs import load_run_index, open_run_finder
from andon.errors import AndonError
from andon.host.accounts import UserAccount, become
from andon.host.state.user_folder import node_path
from andon.jobs import acts as acts  # imported while it may read andon's own files
from andon.jobs import outputs as outputs  # the same
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules import naming as naming  # the same
from andon.model.job.desk import JobAct
from andon.model.run.record import RunRow
from andon.model.shapes import to_json
from andon.model.wire import dumps
from andon.node.job_schemas import JobDone
from andon.node.watched.runs import FoundRuns, ServedRuns
from andon.node.watched.users import MOST_ROWS, PIECE_BYTES
from andon.runs.growing import opened
from andon.runs.index import RunFinder
from andon.runs.rules.matching import RunQuery
from andon.web.users.processes import IDLE_SECONDS, MOST_ANSWER_BYTES

load_run_index()  # the same: later it may not be able to read andon's own files
MOST_QUESTION_BYTES = 64 * 1024
TOO_LONG = {"kind": "unavailable", "reason": "the answer is too long", "hint": ""}
Answer = dict[str, Any]


class UserAnswers:
    """The answers about one user, who this process runs as."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._desk = QueueDesk(user=user)
        self._finder: RunFinder | None = None
        self._runs = ServedRuns(self._find_runs, "")
        self._sent: dict[str, tuple[object, int]] = {}

    def answer(self, question: dict[str, Any]) -> Answer:
        """Answers one question; an error is an answer too."""
        known: dict[str, Callable[..., Answer]] = {
            "jobs": self.jobs, "job": self.job, "log": self.log, "act": self.act,
            "runs": self.runs, "run": partial(self.of_run, self._runs.details),
            "marks": partial(self.of_run, self._runs.marks),
            "news": partial(self.of_run, self._runs.update),
            "record": self.record, "piece": self.piece, "annotate": self.annotate,
        }  # fmt: skip
        try:
            return {"answer": known[question.pop("ask")](**question)}
        except AndonError as error:
            kind = type(error).__name__.lower()
            return {"error": {"kind": kind, "reason": error.reason, "hint": error.hint}}
        except (OSError, KeyError, TypeError, ValueError) as error:
            reason = str(getattr(error, "strerror", None) or error)
            return {"error": {"kind": "unavailable", "reason": reason, "hint": ""}}

    def jobs(self, seen: str) -> Answer:
        found = self._desk.listing()
        views = list(found.views)[-MOST_ROWS:]

        def answer() -> Answer:
            return {"views": to_json(views), "paused": found.paused}

        return self._if_changed("jobs", (views, found.paused), seen, answer)

    def job(self, job: int) -> Answer:
        found: Answer = to_json(self._desk.view(job))
        return found

    def log(self, job: int, start: int | None, most: int, attempt: int | None) -> Answer:
        return asdict(self._desk.log(job, start, most, attempt))

    def act(self, job: int, act: str) -> Answer:
        (done,) = self._desk.act(JobAct(act), [job])
        if done.error is not None:
            raise done.error
        return asdict(JobDone(done.label, done.text, done.note))

    def runs(self, seen: str) -> Answer:
        rows = self._runs.find(RunQuery(limit=MOST_ROWS))
        return self._if_changed(
            "runs", rows, seen, lambda: {"rows": [to_json(row) for row in rows]}
        )

    def of_run(self, read: Callable[[RunRow], object], run: str) -> Answer:
        found: Answer = to_json(read(self._runs.resolve(run)))
        return found

    def annotate(self, run: str, pinned: bool | None, note: str | None) -> Answer:
        found: Answer = to_json(self._runs.annotate(self._runs.resolve(run), pinned, note))
        return found

    def record(self, run: str) -> Answer:
        found = self._runs.download(self._runs.resolve(run))
        found.file.close()
        return {"size": found.size, "name": found.name}

    def piece(self, run: str, start: int, size: int) -> Answer:
        row = self._runs.resolve(run)
        with opened(row.path, row.id) as file:
            file.seek(start)
            return {"piece": base64.b64encode(file.read(min(size, PIECE_BYTES))).decode()}

    def _find_runs(self) -> FoundRuns:
        """The user's own records: a record of another user that was added is not shown here."""
        if self._finder is None:
            if not node_path().is_dir():
                return FoundRuns()
            self._finder = open_run_finder()
        left = self._finder.refresh()
        return FoundRuns(self._finder.index, left=left).of(self._user)

    def _if_changed(
        self, what: str, value: object, seen: str, answer: Callable[[], Answer]
    ) -> Answer:
        """Returns the answer, or only its number if the server has it already."""
        before, number = self._sent.get(what, (None, 0))
        if not number or before != value:
            number += 1
            self._sent[what] = value, number
        name = f"{os.getpid()}-{number}"
        return {"seen": name} if seen == name else {"seen": name, **answer()}


def main(arguments: Sequence[str]) -> int:
    """Answers questions until the input ends or none has come for a while."""
    uid, gid, groups, name, home = arguments
    numbers = tuple(int(one) for one in groups.split(",") if one)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    become(UserAccount(int(uid), int(gid), numbers, name, home))
    os.umask(0o077)
    answers, source = UserAnswers(name), sys.stdin.buffer
    while select.select([source], [], [], IDLE_SECONDS)[0]:
        line = source.readline(MOST_QUESTION_BYTES)
        if not line:
            break
        body = dumps(answers.answer(json.loads(line))).encode("utf-8", "replace")
        if len(body) > MOST_ANSWER_BYTES:
            body = json.dumps({"error": TOO_LONG}).encode()
        sys.stdout.buffer.write(b"%08d\n" % len(body) + body)
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
