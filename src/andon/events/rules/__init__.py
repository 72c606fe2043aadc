"""What devices and drivers report on their own: Xids, resets, lines of the kernel log."""
