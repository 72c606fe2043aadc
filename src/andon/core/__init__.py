"""Decisions: functions of values and time, with no I/O and no clock."""
