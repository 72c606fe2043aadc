"""The node itself: its processor, memory, disks and drivers."""
