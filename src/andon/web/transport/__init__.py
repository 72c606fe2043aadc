"""What every request passes through: seats, turns, the gate, keys, and the logs.

Anyone may connect from loopback, so an address identifies no one before a request is read. Silent
connections give way to new ones, and requests without a key have a quota of connections and of each
round of the event loop.
"""
