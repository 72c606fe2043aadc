"""Fakes and builders that andon ships for tests, its own and its users'."""
