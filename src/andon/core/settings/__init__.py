"""The settings: every one of them, their kinds, and which value counts."""
