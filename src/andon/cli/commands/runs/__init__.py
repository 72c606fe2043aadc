"""`andon runs`: finds and reads the records of runs, a file per command."""
