"""`python -m andon.cli`, for where the script is not on the PATH."""

from andon.cli.main import main

main()
