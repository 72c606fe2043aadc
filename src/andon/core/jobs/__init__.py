"""Which job runs next, where and why not yet. Empty until the queue comes."""
