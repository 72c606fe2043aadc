"""What is shown, exported and kept of records."""
