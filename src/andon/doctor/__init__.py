"""What is wrong with this machine, and whether readings are plausible.

`inspection` gathers facts and judges nothing; `rules` judges facts and reads nothing.
"""
