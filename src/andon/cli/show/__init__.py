"""Renders values as text: tables, cells, colours; pure, so that golden files can test it."""
