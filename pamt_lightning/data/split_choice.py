"""Moved to `splits` and `split_files`."""

from pamt_lightning.data.split_files import given_split
from pamt_lightning.data.splits import SplitSizes, count_or_share

__all__ = ["SplitSizes", "count_or_share", "given_split"]
