"""What a program hangs into its own loops: calls when an alert comes, and loops that wait."""
