"""The parts that watch for alerts, write them down and notify."""
