"""The parts that evaluate alerts, store them and notify people."""
