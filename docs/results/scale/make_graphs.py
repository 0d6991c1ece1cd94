"""Write Cora_ML with changed attributes: `python make_graphs.py FOLDER`, then run scale.yaml there.

It writes plain.npz (as published), times_100.npz, half.npz (half of the non-zeros dropped at
random) and binary.npz (every non-zero is 1).
"""

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from pamt_lightning import GraphDataModule


def main(folder: Path) -> None:
    """Write the four files."""
    data = GraphDataModule(dataset="cora_ml", scale_features="none")
    adjacency, x = data.raw.adjacency, sp.csr_array(data.raw.features)
    kept = np.random.default_rng(0).random(x.nnz) < 0.5
    half = x.copy()
    half.data[~kept] = 0.0
    half.eliminate_zeros()
    variants = {"plain": x, "times_100": 100 * x, "half": half, "binary": x.astype(bool)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, features in variants.items():
        features = sp.csr_array(features).astype(np.float32)
        np.savez(
            folder / f"{name}.npz",
            adj_data=adjacency.data,
            adj_indices=adjacency.indices,
            adj_indptr=adjacency.indptr,
            adj_shape=adjacency.shape,
            attr_data=features.data,
            attr_indices=features.indices,
            attr_indptr=features.indptr,
            attr_shape=features.shape,
            labels=data.raw.labels,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
