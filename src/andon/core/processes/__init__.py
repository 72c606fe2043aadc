"""What is said of a process: where it belongs, its use of DRM devices, its command line redacted."""
