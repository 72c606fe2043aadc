"""When to retry, and which repeated messages are dropped."""
