"""What `andon selftest` checks: are the readings plausible, and do they follow a load?"""
