"""Snapshots as Prometheus text: the catalogue, the rendering, and a small HTTP server."""

from andon.exporter.exposition import Exposition
from andon.exporter.spreads import Service

__all__ = ["Exposition", "Service"]
