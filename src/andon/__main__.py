"""`python -m andon`, for where the script is not on the PATH."""

from andon.cli.entry import main

main()
