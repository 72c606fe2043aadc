"""Everything that can be wrong: one file per condition, in folders by subject.

A file has the levels, thresholds, judgement, sentences, lamp word, reasons of `andon why` and
PromQL of its condition. `condition` is the shape of such a file, `judging` what it can be judged
by. `catalogue` loads all; one is found by its name in `index`, which `make golden` writes, so that
`andon status` loads only those whose cheap test in `triggers` passes. `rulebook` has the thresholds
in force for a device.
"""
