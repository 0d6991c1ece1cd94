"""Predictions of validation nodes in whose choice of the state they had no part."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood


class OutOfFold:
    """The predictions of validation nodes at the epochs that are best without them.

    The state that is kept is the best one on the validation nodes, so their accuracy is too high.
    Here they are divided into two halves, and each is predicted at the epoch that is best on the
    other half. A single node has no other half and is predicted at its own best epoch.

    Attributes:
        best: Accuracy and loss of the best epoch so far on each half.
        probs: The probabilities of all validation nodes at these two epochs, ``[2, M, C]``.
        y: Their classes, ``[M]``.
    """

    def __init__(self) -> None:
        self.best = [(-1.0, float("inf"))] * 2
        self.probs: Tensor | None = None
        self.y: Tensor | None = None

    def update(self, probs: Tensor, y: Tensor) -> None:
        """Look at an epoch: probabilities ``[M, C]`` and classes ``[M]`` of validation nodes."""
        if self.probs is None:
            self.probs, self.y = probs.new_zeros(2, *probs.shape), y
        for half in range(2):
            rows = slice(half, None, 2) if len(y) > 1 else slice(None)
            acc = float(accuracy(probs[rows], y[rows]))
            loss = float(negative_log_likelihood(probs[rows], y[rows]))
            if (acc, -loss) > (self.best[half][0], -self.best[half][1]):
                self.best[half] = acc, loss
                self.probs[half] = probs.to(self.probs.device)  # a checkpoint is on the CPU

    def result(self) -> Tensor | None:
        """The predictions ``[M, C]``, each node's from the epoch that the other half chose."""
        if self.probs is None:
            return None
        found = self.probs[0].clone()  # chosen by the even rows, for the odd ones
        found[::2] = self.probs[1, ::2]
        return found

    def state_dict(self) -> dict[str, Any]:
        """What a resumed training goes on from."""
        return {"best": [list(pair) for pair in self.best], "probs": self.probs, "y": self.y}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.best = [(acc, loss) for acc, loss in state["best"]]
        self.probs, self.y = state["probs"], state["y"]
