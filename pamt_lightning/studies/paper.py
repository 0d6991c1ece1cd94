"""The accuracies that the paper reports, to stand beside the measured ones.

Source: Chen, Li, He and He, *Propagation with Adaptive Mask then Training for Node Classification
on Attributed Networks*: Table 3 (all models) and, for PAMT_0 and PAMT_1, Table 5 (ablation).
Accuracy in %, mean ± standard deviation, on "random data splits" that were not published, so a
difference of a standard deviation or two says little. Methods have the names of `pamt methods`:
the paper's RGCN is RobustGCN here, its SGCN is SGC.
"""

from __future__ import annotations

SOURCE = "PAMT paper, Tables 3 and 5: accuracy in %, mean ± standard deviation, random data splits"

DATASETS = ("cora_ml", "citeseer", "pubmed", "ms_academic")

# Mean and spread, in the order of DATASETS.
ACCURACY: dict[str, tuple[tuple[float, float], ...]] = {
    "GCN": ((82.90, 0.41), (73.56, 0.59), (76.75, 0.63), (91.26, 0.18)),
    "GAT": ((83.46, 0.58), (72.79, 0.24), (78.97, 0.24), (91.43, 0.05)),
    "RobustGCN": ((84.18, 0.15), (72.83, 0.15), (78.77, 0.11), (92.61, 0.08)),
    "SGC": ((77.44, 0.87), (75.89, 0.36), (70.68, 1.50), (90.83, 0.17)),
    "APPNP": ((85.63, 0.18), (75.51, 0.35), (78.86, 0.57), (92.41, 0.19)),
    "PTS": ((85.62, 0.37), (75.74, 0.35), (78.79, 0.69), (91.85, 0.17)),
    "PTA": ((85.50, 0.22), (75.72, 0.41), (79.08, 0.77), (92.72, 0.09)),
    "PAMT_r": ((83.27, 0.84), (69.01, 0.63), (76.67, 0.56), (92.35, 0.48)),
    "PAMT_0": ((85.52, 0.34), (76.62, 0.32), (78.97, 0.34), (92.43, 0.38)),
    "PAMT_1": ((85.66, 0.36), (76.82, 0.12), (79.12, 0.29), (92.60, 0.36)),
    "PAMT": ((86.01, 0.32), (76.98, 0.24), (79.38, 0.44), (92.92, 0.14)),
}


def paper_accuracy(dataset: str, method: str) -> tuple[float, float] | None:
    """The paper's mean and standard deviation in %; none where it has no value."""
    if dataset not in DATASETS or method not in ACCURACY:
        return None
    return ACCURACY[method][DATASETS.index(dataset)]
