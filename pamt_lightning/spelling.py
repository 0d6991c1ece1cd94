"""A hint for words that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A sentence with the known word that is most alike, led by a blank; else nothing.

    >>> did_you_mean("metods", ["methods", "seeds"])
    " Did you mean 'methods'?"
    """
    close = difflib.get_close_matches(str(word), list(known), 1)
    return f" Did you mean {close[0]!r}?" if close else ""
