"""The settings: all of them, their types, and which value is in force.

Thresholds of alerts are settings too, and come from the conditions (`figures`).
"""
