"""Decisions that all kinds of clusters share."""
