"""Graphs on disk that are mapped into memory instead of read."""
