"""Scripts that andon starts by their path. They import nothing of andon: they start quickly.

The path is how a running process starts them, also after an upgrade: they stay where they are.
"""

from pathlib import Path

STANDALONE = Path(__file__).parent
