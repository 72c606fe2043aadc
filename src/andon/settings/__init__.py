"""The settings: all of them, their types, and which value is in force."""
