"""The alert state machine: pure, from a snapshot and two clocks to changes and notices.

Also the lamps and the headline, order and count of every list of alerts, what holds now if no
server watches (`standing`; only its lamps: `glance`), who is notified, when and with which text.
"""
