"""How far a command is, by its error output: bars of tqdm, Hugging Face and Lightning go there."""

from collections.abc import Callable

from andon.model.job.progress import WorkProgress


class PrintedProgress:
    """Asked with each sample of a run; a part that was read before is not read again."""

    def __init__(self, began: float) -> None:
        self._began, self._at = began, 0.0
        self._recent: Callable[[], tuple[str, float]] = lambda: ("", 0.0)
        self._latest: WorkProgress | None = None

    def follow(self, recent: Callable[[], tuple[str, float]]) -> None:
        """`recent` has the last part of the output, and when it was written."""
        self._recent = recent

    def __call__(self) -> WorkProgress | None:
        text, at = self._recent()
        if text and at != self._at:
            from andon.runs.rules.progress import progress_in, work_progress  # not every one prints

            told, self._at = progress_in(text), at
            self._latest = None if told is None else work_progress(told, self._began, at)
        return self._latest
