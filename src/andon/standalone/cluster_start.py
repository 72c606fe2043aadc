"""Starts a cluster's job on its node: `cluster_start.py VERSION TASK JOB CMD…`, with -P -S.

What it does is in a module, which is compiled once; a script is compiled at each start.
"""

import sys

sys.path.append(__file__.rpartition("/")[0])
from quick_start import main  # type: ignore[import-not-found]

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
