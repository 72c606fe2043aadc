"""What devices and drivers report on their own."""
