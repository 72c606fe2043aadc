"""`python -m dev.site.man FOLDER`: writes the pages for man, below FOLDER/man1."""

import sys
from pathlib import Path

from dev.site.commands import man_pages


def main() -> None:
    folder = Path(sys.argv[1]) / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in man_pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"man -M {sys.argv[1]} andon-run")


if __name__ == "__main__":
    main()
