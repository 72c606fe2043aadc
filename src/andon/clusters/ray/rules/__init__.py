"""Requests to Ray and its answers as values; pure."""
