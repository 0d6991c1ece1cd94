"""Arguments of the synthetic graph; apart from it, so that a command can list them at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SyntheticOptions:
    """Arguments of the synthetic graph, as options of a configuration.

    Args:
        num_nodes: Number of nodes.
        num_classes: Number of classes.
        num_features: Number of words a node may have.
        average_degree: Mean number of neighbours.
        homophily: Share of edges inside a class.
        feature_signal: What features tell about the class, from 0 (nothing) to 1 (everything).
        degree_exponent: Exponent of the power law of degrees, above 2; smaller is more uneven.
        words_per_node: Mean number of words drawn for a node.
        seed: Seed of the graph.
    """

    num_nodes: int = 3000
    num_classes: int = 6
    num_features: int = 1000
    average_degree: float = 5.0
    homophily: float = 0.75
    feature_signal: float = 0.3
    degree_exponent: float = 3.0
    words_per_node: float = 20.0
    seed: int = 0
