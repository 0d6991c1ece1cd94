"""Graphs of the user's own: CSV tables and .npz archives."""
