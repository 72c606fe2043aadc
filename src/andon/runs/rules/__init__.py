"""What a run used, and how its command ended.

From the lines of its record: the summary, whether memory ran out, which processes are one run
(`ranks`), which runs a search means, baselines and drift, how far a program is (`progress`), and
which records are deleted.
"""
