"""Snapshots as Prometheus text: the catalogue, the rendering, and a small HTTP server."""

from andon.exporter.exposition import CONTENT_TYPE, Exposition
from andon.exporter.spreads import Service

__all__ = ["CONTENT_TYPE", "Exposition", "Service"]
