from __future__ import annotations

import torch

from pamt_lightning.methods.out_of_fold import OutOfFold

Y = torch.tensor([0, 1, 0, 1])


def probs(*right: float) -> torch.Tensor:
    """The probability of the true class of each node."""
    found = torch.tensor(right)
    both = torch.stack([found, 1 - found], 1)
    return torch.where(Y[: len(found), None] == 0, both, both.flip(1))


def of_true(found: torch.Tensor | None) -> list[float]:
    assert found is not None
    return [round(float(row[y]), 3) for row, y in zip(found, Y, strict=False)]


def test_each_node_is_predicted_at_the_epoch_that_the_other_half_chose() -> None:
    tracked = OutOfFold()
    tracked.update(probs(0.9, 0.4, 0.9, 0.3), Y)  # best for nodes 0 and 2
    tracked.update(probs(0.2, 0.8, 0.1, 0.7), Y)  # best for nodes 1 and 3
    tracked.update(probs(0.3, 0.6, 0.6, 0.6), Y)  # best for neither
    assert of_true(tracked.result()) == [0.2, 0.4, 0.1, 0.3]


def test_its_own_best_epoch_would_flatter_a_node() -> None:
    random = torch.Generator().manual_seed(0)
    y = torch.randint(2, (2000,), generator=random)
    tracked, best = OutOfFold(), 0.0
    for _ in range(300):
        guess = torch.rand(2000, 2, generator=random).softmax(1)
        tracked.update(guess, y)
        best = max(best, float((guess.argmax(1) == y).float().mean()))
    found = tracked.result()
    assert found is not None
    honest = float((found.argmax(1) == y).float().mean())
    assert best > 0.525
    assert abs(honest - 0.5) < 0.025


def test_accuracy_decides_before_the_loss() -> None:
    tracked = OutOfFold()
    tracked.update(probs(0.51, 0.5, 0.51, 0.5), Y)
    tracked.update(probs(0.99, 0.1, 0.49, 0.1), Y)  # a lower loss on nodes 0 and 2, fewer right
    assert of_true(tracked.result())[1::2] == [0.5, 0.5]


def test_a_single_node_has_its_own_best_epoch() -> None:
    tracked = OutOfFold()
    assert tracked.result() is None
    tracked.update(probs(0.2), Y[:1])
    tracked.update(probs(0.8), Y[:1])
    assert of_true(tracked.result()) == [0.8]


def test_the_state_can_be_saved() -> None:
    tracked, again = OutOfFold(), OutOfFold()
    tracked.update(probs(0.9, 0.4, 0.9, 0.3), Y)
    again.load_state_dict(tracked.state_dict())
    for each in (tracked, again):
        each.update(probs(0.2, 0.8, 0.1, 0.7), Y)
    assert of_true(tracked.result()) == of_true(again.result())
