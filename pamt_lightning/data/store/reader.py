"""Moved to `format`."""

from pamt_lightning.data.store.format import GraphStore, is_store

__all__ = ["GraphStore", "is_store"]
