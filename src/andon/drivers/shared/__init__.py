"""What several drivers share: the kernel's files of cards, PCI devices and DRM clients."""
