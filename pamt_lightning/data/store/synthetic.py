"""Moved to `writer`."""

from pamt_lightning.data.store.writer import write_synthetic

__all__ = ["write_synthetic"]
