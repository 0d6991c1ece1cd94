"""How a graph is read from the user's files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import scipy.sparse as sp

from pamt_lightning.interop.columns import Columns
from pamt_lightning.interop.edges import Opposite, Repeated, undirected_graph


@dataclass(frozen=True)
class ReadOptions:
    """How a graph is read from the user's files.

    Attributes:
        columns: Which columns hold what, and which kind attributes are.
        weights: Whether edge weights are used.
        repeated: See `undirected_graph`; by default ``sum`` with weights, else ``ignore``.
        opposite: See `undirected_graph`.
    """

    columns: Columns = field(default_factory=Columns)
    weights: bool = True
    repeated: Repeated | None = None
    opposite: Opposite = "max"

    def adjacency(self, matrix: Any, *, is_weighted: bool) -> tuple[sp.csr_array, str]:
        """The undirected graph of a matrix of edge weights, and what was found."""
        weighted = is_weighted and self.weights
        repeated = self.repeated or ("sum" if weighted else "ignore")
        if not weighted and repeated in ("sum", "max"):
            repeated = "ignore"
        joined, report = undirected_graph(matrix, repeated, self.opposite)
        return joined, str(report)
