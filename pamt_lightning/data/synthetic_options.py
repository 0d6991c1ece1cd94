"""Moved to `synthetic`."""

from pamt_lightning.data.synthetic import SyntheticOptions

__all__ = ["SyntheticOptions"]
