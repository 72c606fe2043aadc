"""Everything that can be wrong: one file per condition, in folders by subject.

A file has the judge, levels, thresholds, description, lamp word and PromQL of its condition. The
judge decides for alert, lamp and `why` alike, and the description is what each of them says.
`condition` is the shape of such a file, `judging` what it can be judged by. `catalogue` loads all;
one is found by its name in `index`, which `make golden` writes, so that `andon status` loads only
those of which `index` says that what their judge compares is so. `rulebook` has the thresholds in
force for a device.
"""
