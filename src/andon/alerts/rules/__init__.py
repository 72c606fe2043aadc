"""The alert state machine: pure, from a snapshot and two clocks to changes and notices. Also the
lamps and the headline, the order and count of every list of alerts, the alerts and lamps of a
single sample if no server watches (`alerts_from_sample`, `lamps_from_sample`), and who is notified,
when and with which text.
"""
