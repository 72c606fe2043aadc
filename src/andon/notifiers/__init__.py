"""The notifiers; each implements `ports.Notifier`."""
