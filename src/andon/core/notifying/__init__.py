"""Who is notified of what and when, and the text of messages."""
