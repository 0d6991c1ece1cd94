"""What is done to node attributes before they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def l1_normalize(
    features: sp.csr_array | np.ndarray[Any, Any],
) -> sp.csr_array | np.ndarray[Any, Any]:
    """Divide each row by the sum of its absolute values; rows of zeros stay zeros.

    Sums and quotients are float64, so that very large and very small rows keep their values.
    """
    if not sp.issparse(features):
        mass = np.abs(features).sum(axis=1, keepdims=True, dtype=np.float64)
        return (features / np.where(mass > 0, mass, 1)).astype(features.dtype)
    mass = np.asarray(abs(features).astype(np.float64).sum(axis=1)).ravel()
    divisor = np.repeat(np.where(mass > 0, mass, 1), np.diff(features.indptr))
    scaled = features.copy()
    scaled.data = (features.data / divisor).astype(features.dtype)
    return scaled
