"""Processes: what is known of one, how they are related, and how one is signalled."""
