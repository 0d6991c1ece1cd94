from __future__ import annotations

import torch
from torchmetrics.functional.classification import multiclass_accuracy

from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood


def test_accuracy_is_that_of_torchmetrics() -> None:
    probs = torch.rand(50, 4)
    target = torch.randint(0, 4, (50,))
    index = torch.arange(0, 50, 3)
    expected = multiclass_accuracy(probs[index], target[index], 4, average="micro")
    assert accuracy(probs, target, index) == expected
    assert accuracy(probs, target) != expected


def test_likelihood_is_the_mean_log_probability_of_the_true_class() -> None:
    probs = torch.tensor([[0.5, 0.5], [0.1, 0.9], [1.0, 0.0]])
    target = torch.tensor([0, 1, 0])
    expected = -(torch.tensor([0.5, 0.9]).log()).mean()
    index = torch.tensor([0, 1])
    torch.testing.assert_close(negative_log_likelihood(probs, target, index), expected)
    certain_and_wrong = negative_log_likelihood(probs, torch.tensor([0, 1, 1]))
    assert torch.isfinite(certain_and_wrong)
