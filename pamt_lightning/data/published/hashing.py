"""Moved to `pamt_lightning.data.raw`."""

from pamt_lightning.data.raw import sha256_of

__all__ = ["sha256_of"]
