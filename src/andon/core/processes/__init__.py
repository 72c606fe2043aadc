"""What is known of a process: its container and job, its usage, its redacted command line."""
