"""Parsers of files and answers of the operating system."""
