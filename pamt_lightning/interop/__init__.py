"""Graphs as other libraries and files hold them, as plain NumPy and SciPy arrays."""
