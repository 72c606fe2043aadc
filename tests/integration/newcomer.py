"""Ten questions that a newcomer asks, and where the board of the demo answers them."""

import re
from typing import NamedTuple

from playwright.sync_api import Locator, Page

MOST_STEPS = 2


class Question(NamedTuple):
    """A question, the keys and clicks that lead from the board to its answer, and the answer."""

    asks: str
    steps: tuple[str, ...]
    where: str
    answer: str

    @property
    def path(self) -> str:
        """The steps in words: "on the board", "key `r`, accuracy"."""
        said = [f"key `{step}`" if len(step) == 1 else step for step in self.steps]
        return ", ".join(said) or "on the board"


QUESTIONS = (
    Question("Which GPU is free?", (), ".totals .free", r"1 free: 5$"),
    Question("Who left a GPU idle?", (), ".tile.amber", r"held but idle.*dora"),
    Question("Which GPU is broken, and does somebody look after it?", (), ".tile.red.handled",
             r"6.*lost.*acknowledged by dora"),
    Question("Why is GPU 0 slower than it could be?", ("GPU 0",), ".panel.why", r"power limit"),
    Question("Why does erik's job wait?", ("Jobs",), "tr",
             r"evaluate\.py.*erik.*4 GPUs requested, 1 available"),
    Question("When is alice's training done?", ("Jobs",), "tr", r"pretrain\.py.*alice.*left"),
    Question("Until when does carol keep GPU 3?", ("l",), ".lease", r"carol.*until.*left"),
    Question("Which run is the most accurate?", ("r", "accuracy"), "table",
             r"accuracy\s↓.*lab\d{5}.*0\.\d{3}"),
    Question("Would a model of 70 billion parameters fit?", ("Estimate", "llama-3-70b"),
             ".verdict", r"no: it needs 136\sGiB on one GPU; --tp 2 would fit"),
    Question("What did bob use this week, and what did it cost?", ("p", "bob"), ".sums",
             r"GPU time.*\d\.\d\d EUR"),
)  # fmt: skip


def take(page: Page, step: str) -> None:
    """Presses a key, or clicks what begins with these words."""
    if len(step) == 1:
        page.keyboard.press(step)
        return
    name = re.compile(rf"^{re.escape(step)}\b")
    page.get_by_role("link", name=name).or_(page.get_by_role("button", name=name)).first.click()


def answer_to(page: Page, question: Question) -> Locator:
    """What shows the answer, once the steps are taken."""
    said = re.compile(question.answer, re.DOTALL)
    return page.get_by_role("main").locator(question.where).filter(has_text=said).first
