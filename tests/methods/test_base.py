import pytest
import torch
from torchmetrics.functional.classification import multiclass_accuracy

from pamt_lightning.errors import InputError
from pamt_lightning.methods.base import require_range
from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood
from tests.methods.helpers import small_data, small_model


def test_accuracy_is_that_of_torchmetrics() -> None:
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(50, 4, generator=generator)
    target = torch.randint(0, 4, (50,), generator=generator)
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


def test_decay_of_the_optimiser_is_the_l2_term_on_the_first_layer_alone() -> None:
    data = small_data()
    by_group, by_loss = small_model(data, dropout=0.0), small_model(data, dropout=0.0)
    decay = 0.3
    for model, explicit in ((by_group, False), (by_loss, True)):
        prepared = model.prepare(data.graph)
        model.refresh(prepared, epoch=0)
        optimizer = model.make_optimizer(0.0 if explicit else decay)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model.training_loss(prepared)
            if explicit:
                loss = loss + decay / 2 * model.net.input.weight.square().sum()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    for name, value in by_loss.state_dict().items():
        torch.testing.assert_close(by_group.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_a_graph_is_prepared_once() -> None:
    data = small_data()
    model = small_model(data)
    first = model.prepare(data.graph)
    assert model.prepare(data.graph) is first
    other = small_data(split_seed=1)
    assert model.prepare(other.graph) is not first
    assert model.double().prepare(other.graph).dtype == torch.float64


@pytest.mark.parametrize(
    ("value", "fine"), [(0.0, True), (1.0, False), (0.999, True), (-0.1, False)]
)
def test_a_range_says_what_it_expects_and_what_it_got(value: float, fine: bool) -> None:
    if fine:
        require_range("beta", value, 0.0, 1.0, open_high=True)
    else:
        with pytest.raises(InputError, match=rf"`beta` must lie in \[0.0, 1.0\), got {value}"):
            require_range("beta", value, 0.0, 1.0, open_high=True)
