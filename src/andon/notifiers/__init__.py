"""Who tells people; each notifier keeps the contract of `ports.Notifier`."""
