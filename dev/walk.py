"""A newcomer's walk through the demo: ten questions, each answered on the board within 3 seconds.

python -m dev.walk DIR    walks it in Chromium, and leaves a picture of every answer in DIR
"""

import argparse
import re
import sys
import time
from pathlib import Path

from dev.pictures import DEVICES, reduce
from playwright.sync_api import Page, expect
from tests.integration.board import opened, tiles
from tests.integration.browser import chromium
from tests.integration.demo import Demo, running_demo
from tests.integration.newcomer import QUESTIONS, Question, answer_to, take

MOST_SECONDS = 3.0
MARKED = """one => {
  one.style.outline = '4px solid #1f5fbf';
  one.scrollIntoView({block: 'center'});
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder = parser.parse_args().folder
    folder.mkdir(exist_ok=True, parents=True)
    slow = 0
    with running_demo() as demo, chromium() as browser, opened(browser) as seen:
        seen.page.add_init_script("localStorage.setItem('andon.tour', 'seen')")
        for number, question in enumerate(QUESTIONS, 1):
            seconds = walked(seen.page, demo, question)
            path = folder / f"{number:02}-{re.sub(r'[^a-z0-9]+', '-', question.asks.lower())}.png"
            path = path.with_stem(path.stem.strip("-"))
            seen.page.screenshot(path=path)
            reduce(path)
            slow += seconds > MOST_SECONDS
            print(f"{number:2}. {question.asks} ({question.path}): {seconds:.2f} s")
    print(f"{len(QUESTIONS) - slow} of {len(QUESTIONS)} within {MOST_SECONDS:g} s")
    return 1 if slow else 0


def walked(page: Page, demo: Demo, question: Question) -> float:
    """From the board that has just been opened to the answer, in seconds."""
    page.goto("about:blank")
    page.goto(demo.url)
    expect(tiles(page)).to_have_count(DEVICES)
    began = time.monotonic()
    for step in question.steps:
        take(page, step)
    found = answer_to(page, question)
    expect(found).to_be_visible()
    seconds = time.monotonic() - began
    found.evaluate(MARKED)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
