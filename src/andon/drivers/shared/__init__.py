"""What several drivers share: which vendors are here; the kernel's files of cards and clients."""
