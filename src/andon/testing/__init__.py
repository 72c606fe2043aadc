"""A mock, a fake cluster and the contracts of adapters, also for authors of plug-ins."""
