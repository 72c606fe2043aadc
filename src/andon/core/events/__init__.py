"""What devices and drivers report by themselves: Xids, resets, lines of the kernel log."""
