"""What several suites share: nothing in here is a test."""
