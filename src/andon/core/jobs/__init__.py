"""Which job runs next, where, and why not yet. Empty until jobs are added."""
