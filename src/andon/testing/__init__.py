"""Fakes and builders for tests, shipped for andon's users too."""
