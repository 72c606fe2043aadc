"""What is said of a process: where it belongs, what it uses, its command line redacted."""
