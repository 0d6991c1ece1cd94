"""PAMT_plus: learners that see the graph and the attributes in different ways, pooled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from pamt_lightning.data.batch import GraphBatch
from pamt_lightning.errors import InputError, require_in, require_one_of
from pamt_lightning.functional import (
    consistency_loss,
    drop_nodes,
    fit_pool,
    fit_sharpness,
    join_graphs,
    log_probabilities,
    mean_of_hops,
    normalize_adjacency,
    normalize_symmetric,
    one_hot_rows,
    pool,
    principal_directions,
    soft_cross_entropy,
)
from pamt_lightning.kernels.columns import row_softmax
from pamt_lightning.kernels.csr import csr_tensor
from pamt_lightning.kernels.features import DenseFeatures, as_features
from pamt_lightning.kernels.operator import SparseOperator
from pamt_lightning.methods.base import Prediction, WeightDecay
from pamt_lightning.methods.metrics import accuracy, negative_log_likelihood
from pamt_lightning.methods.out_of_fold import OutOfFold
from pamt_lightning.methods.propagate_then_train import PTAModule
from pamt_lightning.nn import MLP

Pooling = Literal["fitted", "equal"]


@dataclass(frozen=True)
class View:
    """How one learner uses a graph.

    Attributes:
        propagates_over: The graph that carries the labels it learns from and its prediction, as in
            PTA; without one it learns from the labelled nodes alone.
        drops_over: The graph over which it averages attributes while nodes are dropped at random,
            so as to predict the same from all of them; see `PAMTPlusModule.consistent_loss`.
        needs_neighbours: Whether there is no such view without attribute neighbours.
    """

    propagates_over: str | None = None
    drops_over: str | None = None
    needs_neighbours: bool = False


# What their networks receive: all attributes in `graph`, the reduced ones in `joined` and
# `neighbours`, and in the others what `PAMTPlusModule.view_attributes` says.
VIEWS = {
    "graph": View(propagates_over="structure"),
    "joined": View(propagates_over="joined"),
    "neighbours": View(propagates_over="neighbours", needs_neighbours=True),
    "attributes": View(),
    "hops": View(),
    "neighbour_hop": View(needs_neighbours=True),
    "consistent": View(drops_over="structure"),
    "trusted_consistent": View(drops_over="trusted"),
}

_RIDGE = 50.0  # the pull of the pool towards equal weights
_NO_EPOCH = (-1.0, torch.inf, 0.0)  # accuracy, loss and number of the best epoch so far
_JUDGE_EVERY = 3  # epochs: a validation takes as long as a step

# The views that learn to be consistent; chosen with the learning rate and weight decay below.
_NUM_HOPS = 4
_DROP_RATE = 0.7  # of nodes
_HIDDEN_DROPOUT = 0.5
_NUM_PASSES = 2  # in a step, with other nodes dropped in each
_MOST_NODES = 4096  # that are compared in a step, drawn at random
_TEMPERATURE = 0.5
_CONSISTENCY = 10.0  # the weight of the consistency loss, ...
_RAMP = 1 / 3  # ... which it reaches after this share of the epochs
_LEARN_EVERY = 2  # epochs
_LR_FACTOR, _DECAY_FACTOR = 0.5, 5.0  # relative to the other views


@dataclass(frozen=True)
class ViewInputs:
    """What the views need of one graph: the reduced attributes, and the graphs by name."""

    reduced: Tensor
    graphs: dict[str, SparseOperator]

    def graph_of(self, view: View) -> SparseOperator:
        """The graph over which a view propagates, or averages while nodes are dropped."""
        return self.graphs[str(view.propagates_over or view.drops_over)]


@dataclass(frozen=True)
class FitInputs:
    """What a training needs beside: soft labels, and inputs of the training, then validation nodes.

    The latter are those of the views without a graph.
    """

    views: ViewInputs
    soft_labels: dict[str, Tensor]
    target: Tensor  # one-hot classes of the training nodes
    labelled: dict[str, Tensor]


class PAMTPlusModule(PTAModule):
    """PAMT_plus: an extension of the paper's method.

    It is not known beforehand how far edges and attributes can be trusted, so several MLPs learn
    side by side, each from another view of the data:

    - ``graph``: PTA over Â, on all attributes;
    - ``joined``: PTA over the trusted edges and the attribute neighbours together, on the
      attributes along their principal directions, as all that follow;
    - ``neighbours``: PTA over the attribute neighbours alone, without any edge;
    - ``attributes``: the labelled nodes alone, without any graph;
    - ``hops``: the labelled nodes alone, on attributes averaged over two hops of Â;
    - ``neighbour_hop``: the labelled nodes alone, on attributes averaged over the attribute
      neighbours;
    - ``consistent``: the labelled nodes, and agreement with itself on all others, on attributes
      averaged over up to four hops of Â while nodes are dropped at random (GRAND);
    - ``trusted_consistent``: the same over the trusted edges.

    Each keeps its own best epoch. Their predictions are pooled with weights that are fitted to the
    validation nodes and drawn towards equal ones.

    Args:
        hidden_dim: Size of the hidden layer of each MLP.
        weight_decay: The L2 term is (weight_decay / 2)·‖W₁‖²; see `NodeClassificationModule`.
        decay_epochs: The epochs of the training.
        num_directions: Number of principal directions that reduce the attributes.
        num_neighbours: Number of attribute neighbours of a node; 0 leaves out what needs them.
        pooling: ``fitted`` to the validation nodes, or ``equal`` weights.
        **options: All others are those of `PTAModule`.
    """

    works_in_shares = False  # trust is estimated from all edges at once

    def __init__(
        self,
        num_features: int,
        num_classes: int,
        *,
        hidden_dim: int = 64,
        weight_decay: WeightDecay = (2e-4, 1e-2),
        decay_epochs: int = 600,
        num_directions: int = 128,
        num_neighbours: int = 20,
        pooling: Pooling = "fitted",
        **options: Any,
    ) -> None:
        super().__init__(
            num_features,
            num_classes,
            hidden_dim=hidden_dim,
            weight_decay=weight_decay,
            decay_epochs=decay_epochs,
            **options,
        )
        require_in("[1, inf)", whole=True, num_directions=num_directions)
        require_in("[0, inf)", whole=True, num_neighbours=num_neighbours)
        require_one_of(get_args(Pooling), pooling=pooling)
        if self.stopping_loss != "nll":
            raise InputError("PAMT_plus stops on `stopping_loss`='nll', got 'soft'.")
        self.num_neighbours = num_neighbours
        size = min(num_directions, num_features)
        # The reduced attributes, four random and three other averages; two graphs with attribute
        # neighbours.
        self.values_per_node = 8 * size + 32 * num_neighbours
        # The search for neighbours and the trust of edges compute in double precision.
        self.attribute_copies = 5 if num_neighbours else 2
        self.pooling: Pooling = pooling
        self.views = {
            name: view
            for name, view in VIEWS.items()
            if num_neighbours or not view.needs_neighbours
        }
        self.nets = torch.nn.ModuleDict()  # `graph` has the network of PTA
        for name, view in self.views.items():
            if name != "graph":
                # Views that drop nodes have a dropout of their own, in the hidden layer alone.
                rate, of_input = (
                    (_HIDDEN_DROPOUT, 0.0) if view.drops_over else (self.net.dropout, None)
                )
                self.nets[name] = MLP(size, hidden_dim, num_classes, rate, input_dropout=of_input)
        count = len(self.views)
        self.directions: Tensor
        self.register_buffer("directions", torch.zeros(num_features, size))
        self.sharpness: Tensor
        self.register_buffer("sharpness", torch.ones(count))
        self.pool_weights: Tensor
        self.register_buffer("pool_weights", torch.full((count,), 1.0 / count))
        # Accuracy and loss of each view's best epoch on the validation nodes, and that epoch.
        self.best: Tensor
        self.register_buffer("best", torch.tensor([_NO_EPOCH]).repeat(count, 1))
        # The same of the pool: in a buffer, so that a finished run that is resumed can report it.
        self.pool_metrics: Tensor
        self.register_buffer("pool_metrics", torch.tensor([-1.0, torch.inf]))
        self._kept: dict[str, dict[str, Tensor]] = {}
        self._views_out_of_fold: dict[str, OutOfFold] = {}
        self._fit: FitInputs | None = None
        # The attributes of each pass of an epoch, of the views that drop nodes.
        self._passes: dict[str, list[Tensor]] = {}

    def net_of(self, view: str) -> MLP:
        """The network of a view."""
        found: Any = self.net if view == "graph" else self.nets[view]
        net: MLP = found
        return net

    @property
    def with_graph(self) -> list[str]:
        """The views that propagate over a graph."""
        return [name for name, view in self.views.items() if view.propagates_over]

    @property
    def consistent(self) -> list[str]:
        """The views that drop nodes and learn to be consistent."""
        return [name for name, view in self.views.items() if view.drops_over]

    # What the views see ------------------------------------------------------------------------

    @torch.no_grad()
    def reduced_attributes(self, batch: GraphBatch) -> Tensor:
        """The attributes along the principal directions."""
        return batch.outputs(lambda x: as_features(x).linear(self.directions))

    @torch.no_grad()
    def view_inputs(self, batch: GraphBatch) -> ViewInputs:
        """The reduced attributes and the graphs of the views."""
        reduced = self.reduced_attributes(batch)
        adj = batch.adj_norm
        trust = adj.with_values(batch.edge_trust)
        graphs = {"structure": adj, "trusted": normalize_symmetric(trust)}
        if self.num_neighbours:
            neighbours = batch.neighbours(self.num_neighbours)
            by_attributes = SparseOperator.from_csr(neighbours, batch.dtype)
            graphs["neighbours"] = normalize_adjacency(by_attributes)
        else:
            empty = (torch.zeros_like(adj.crow), adj.col[:0], adj.values[:0])
            neighbours = csr_tensor(*empty, batch.num_nodes)
        graphs["joined"] = join_graphs(trust, neighbours)
        return ViewInputs(reduced, graphs)

    def view_attributes(self, inputs: ViewInputs) -> Iterator[tuple[str, Tensor]]:
        """What the networks of the views without a graph receive, view by view.

        One at a time: a large graph cannot hold all of them.
        """
        reduced, graphs = inputs.reduced, inputs.graphs
        yield "attributes", reduced
        yield "hops", graphs["structure"] @ (graphs["structure"] @ reduced)
        if "neighbours" in graphs:
            yield "neighbour_hop", graphs["neighbours"] @ reduced
        for name in self.consistent:
            yield name, mean_of_hops(inputs.graph_of(self.views[name]), reduced, _NUM_HOPS)

    # Life cycle --------------------------------------------------------------------------------

    def on_fit_start(self) -> None:
        """Compute what the views see, and the labels that they learn from."""
        super().on_fit_start()
        batch = self.fit_batch
        resumed = self.trainer.ckpt_path is not None
        if not resumed:
            self._kept, self._views_out_of_fold = {}, {}
            self.best[:] = torch.tensor(_NO_EPOCH)
            directions = principal_directions(batch.graph.x, self.directions.shape[1])
            self.directions = directions.to(self.directions)
        inputs = self.view_inputs(batch)
        labels = {}
        for name in self.with_graph:
            if name != "graph":
                labels[name] = self.propagated_labels(inputs.graph_of(self.views[name]), batch)
                self._fit_scale(name, inputs.reduced)
        rows = torch.cat([batch.train_index, batch.val_index])
        labelled = {}
        for name, attributes in self.view_attributes(inputs):
            labelled[name] = attributes[rows]
            self._fit_scale(name, attributes)
        count = len(batch.train_index)
        target = one_hot_rows(
            batch.train_y, torch.arange(count, device=self.device), self.num_classes, batch.dtype
        )
        self._fit = FitInputs(inputs, labels, target, labelled)

    def _fit_scale(self, view: str, attributes: Tensor) -> None:
        energy = float(attributes.double().square().sum())
        self.net_of(view).input.fit_scale(energy / len(attributes))

    def setup(self, stage: str) -> None:
        """Release the inputs of a training that was interrupted."""
        super().setup(stage)
        self._release()

    def on_fit_end(self) -> None:
        """Release the inputs."""
        super().on_fit_end()
        self._release()

    def _release(self) -> None:
        self._fit, self._passes = None, {}

    @property
    def fit_inputs(self) -> FitInputs:
        """The inputs of the training."""
        if self._fit is None:
            raise RuntimeError("There is no training: `on_fit_start` makes its inputs.")
        return self._fit

    @property
    def min_epochs(self) -> int:
        """The training takes so many epochs: each view keeps its own best one."""
        return self.schedule_epochs

    def on_train_start(self) -> None:
        """Train no more if the resumed training had finished."""
        super().on_train_start()
        self.trainer.should_stop |= self.current_epoch >= self.min_epochs

    def on_train_epoch_start(self) -> None:
        """Drop other nodes in every second epoch; in the others the consistent views rest."""
        super().on_train_epoch_start()
        if isinstance(self.weight_decay, tuple):
            (optimizer,) = self.trainer.optimizers
            optimizer.param_groups[2]["weight_decay"] = _DECAY_FACTOR * self.current_decay
        learns = self.current_epoch % _LEARN_EVERY == 0
        self._passes = {name: self.random_inputs(name) for name in self.consistent if learns}

    @torch.no_grad()
    def random_inputs(self, name: str) -> list[Tensor]:
        """The attributes of all nodes in each pass of a view, averaged while nodes are dropped."""
        inputs = self.fit_inputs.views
        adj, reduced = inputs.graph_of(self.views[name]), inputs.reduced
        found = []
        for _ in range(_NUM_PASSES):
            kept = torch.rand(len(reduced), device=reduced.device) >= _DROP_RATE
            dropped = drop_nodes(reduced, kept, _DROP_RATE)
            found.append(mean_of_hops(adj, dropped, _NUM_HOPS))
        return found

    def on_train_epoch_end(self) -> None:
        """Stop after the last epoch."""
        self.trainer.should_stop |= self.current_epoch + 1 >= self.min_epochs

    # Training ----------------------------------------------------------------------------------

    def training_loss(self, batch: GraphBatch) -> Tensor:
        """The sum of the losses of all views, which share no weights."""
        loss = super().training_loss(batch)  # the view `graph`
        reduced = self.fit_inputs.views.reduced
        if batch.nodes is not None:
            reduced = reduced[batch.nodes]
        for name, labels in self.fit_inputs.soft_labels.items():
            loss = loss + self.soft_label_loss(self.net_of(name)(reduced), labels, batch)
        target = self.fit_inputs.target
        for name, rows in self.fit_inputs.labelled.items():
            if name not in self.consistent:
                logits = self.net_of(name)(rows[: len(target)])
                loss = loss + self.loss_weight * soft_cross_entropy(logits, target)
        for name, passes in self._passes.items():
            loss = loss + self.consistent_loss(self.net_of(name), passes, target, batch)
        return loss

    def consistent_loss(
        self, net: MLP, passes: list[Tensor], target: Tensor, batch: GraphBatch
    ) -> Tensor:
        """Cross entropy of the labelled nodes, and the `consistency_loss` of the nodes of a step.

        Both compare predictions of several passes, between which the dropped nodes differ (GRAND,
        Feng et al. 2020, arXiv:2005.11079).
        """
        nodes = batch.nodes
        if nodes is None:
            nodes = torch.arange(batch.num_nodes, device=self.device)
        if len(nodes) > _MOST_NODES:
            drawn = torch.randperm(len(nodes), device=nodes.device)[:_MOST_NODES]
            nodes = nodes[drawn.sort().values]
        rows = torch.cat([batch.train_index, nodes])
        logits = [net(inputs[rows]) for inputs in passes]
        labelled = [soft_cross_entropy(each[: len(target)], target) for each in logits]
        probs = torch.stack([each[len(target) :].softmax(1) for each in logits])
        progress = (self.current_epoch + 1) / self.min_epochs
        weight = _CONSISTENCY * min(1.0, progress / _RAMP)
        agreement = consistency_loss(probs, _TEMPERATURE)
        return self.loss_weight * torch.stack(labelled).mean() + weight * agreement

    def decayed_parameters(self) -> list[torch.nn.Parameter]:
        """W₁ of each view that is not among the consistent ones."""
        others = [name for name in self.views if not self.views[name].drops_over]
        return [self.net_of(name).input.weight for name in others]

    def make_optimizer(self, weight_decay: float) -> torch.optim.Optimizer:
        """Adam with a lower learning rate and a higher weight decay of the consistent views."""
        optimizer = super().make_optimizer(weight_decay)
        own = [self.net_of(name) for name in self.consistent]
        first = [net.input.weight for net in own]
        rest = [p for net in own for p in net.parameters() if p is not net.input.weight]
        moved = {id(parameter) for parameter in [*first, *rest]}
        others = optimizer.param_groups[1]
        others["params"] = [p for p in others["params"] if id(p) not in moved]
        lr = _LR_FACTOR * self.lr
        decay = _DECAY_FACTOR * weight_decay
        optimizer.add_param_group({"params": first, "lr": lr, "weight_decay": decay})
        optimizer.add_param_group({"params": rest, "lr": lr})
        return optimizer

    def validation_step(self, batch: GraphBatch, batch_idx: int) -> None:
        """In a training, judge each view by itself; the metrics are means over the views."""
        if self.trainer.state.fn != "fit" or self.trainer.sanity_checking:
            super().validation_step(batch, batch_idx)
            return
        epoch = self.current_epoch + 1
        if epoch % _JUDGE_EVERY == 0 or epoch == self.min_epochs or not self._kept:
            self._judge(batch)
        acc, loss = self.best[:, 0], self.best[:, 1]
        self.log_dict({"val_acc": acc.mean(), "val_loss": loss.mean()}, batch_size=1, logger=False)
        if self._logs_this_epoch:
            views = {f"val_acc_{name}": acc[place] for place, name in enumerate(self.views)}
            self._log_epoch({"val_acc": acc.mean(), "val_loss": loss.mean(), **views})

    def _judge(self, batch: GraphBatch) -> None:
        """Keep the state of each view that is better than ever on the validation nodes."""
        y, index = batch.graph.y[batch.val_index], batch.val_index
        for place, name in enumerate(self.views):
            probs = (
                self._propagated(name, batch, self.fit_inputs.views)[index]
                if name in self.with_graph
                else row_softmax(self.net_of(name)(self._validation_rows(name)))
            )
            if self.out_of_fold is not None:
                self._views_out_of_fold.setdefault(name, OutOfFold()).update(probs, y)
            acc, loss = float(accuracy(probs, y)), float(negative_log_likelihood(probs, y))
            if (acc, -loss) > (float(self.best[place, 0]), -float(self.best[place, 1])):
                self.best[place] = torch.tensor([acc, loss, self.current_epoch + 1])
                state = self.net_of(name).state_dict()
                self._kept[name] = {key: value.clone() for key, value in state.items()}

    def _validation_rows(self, name: str) -> Tensor:
        return self.fit_inputs.labelled[name][len(self.fit_batch.train_index) :]

    def kept_state(self) -> dict[str, Tensor]:
        """The state with the best weights of each view."""
        state = super().kept_state()
        for name, weights in self._kept.items():
            prefix = "net" if name == "graph" else f"nets.{name}"
            state |= {f"{prefix}.{key}": value for key, value in weights.items()}
        return state

    @torch.no_grad()
    def finish_training(self) -> None:
        """Fit the pool to the validation nodes."""
        # The mean of all views, which decides what is kept, may have missed a tiny improvement.
        self.load_state_dict(self.kept_state())
        batch, was_training = self.fit_batch, self.training
        index, y = batch.val_index, batch.graph.y[batch.val_index]
        self.eval()
        views = dict(self._predictions(batch, self.fit_inputs.views))
        self.train(was_training)
        log_probs = torch.stack([log_probabilities(views[name][index]) for name in self.views])
        fitted = [fit_sharpness(each, y) for each in log_probs]
        sharpness = torch.tensor(fitted, dtype=self.sharpness.dtype)
        self.sharpness.copy_(sharpness)
        self.pool_weights.fill_(1.0 / len(self.views))
        if self.pooling == "fitted":
            tempered = torch.log_softmax(sharpness.to(log_probs)[:, None, None] * log_probs, dim=2)
            self.pool_weights.copy_(fit_pool(tempered, y, _RIDGE))
        pooled = pool(log_probs, self.pool_weights.cpu() * sharpness)
        self.pool_metrics[0] = accuracy(pooled, y)
        self.pool_metrics[1] = negative_log_likelihood(pooled, y)

    def out_of_fold_probs(self) -> Tensor | None:
        """The pool of each half of the validation nodes, fitted to the other half."""
        tracked = [self._views_out_of_fold.get(name) for name in self.views]
        views = [each.probs.cpu() for each in tracked if each and each.probs is not None]
        first = tracked[0]
        if self.out_of_fold is None or len(views) < len(self.views) or not first:
            return None
        if first.y is None:
            return None
        y, halves = first.y.cpu(), torch.stack(views, 1)
        found = torch.zeros_like(halves[0, 0])
        for half in range(2):
            log_probs = log_probabilities(halves[half])
            chosen = slice(half, None, 2) if len(y) > 1 else slice(None)
            others = slice(1 - half, None, 2)
            known, target = log_probs[:, chosen], y[chosen]
            sharpness = torch.tensor([fit_sharpness(each, target) for each in known])
            weights = torch.full_like(sharpness, 1.0 / len(views))
            if self.pooling == "fitted":
                scaled = sharpness.to(known)[:, None, None] * known
                weights = fit_pool(torch.log_softmax(scaled, dim=2), target, _RIDGE)
            pooled = pool(log_probs[:, others], weights.to(sharpness) * sharpness)
            found[others] = pooled.to(found.dtype)
        return found

    def report(self) -> dict[str, Any]:
        """The pool on the validation nodes; of each view weight, accuracy there and best epoch."""
        rows = zip(self.pool_weights.tolist(), self.best.tolist(), strict=True)
        views = {
            name: {"weight": round(weight, 4), "val_acc": best[0], "best_epoch": int(best[2])}
            for name, (weight, best) in zip(self.views, rows, strict=True)
        }
        acc, loss = self.pool_metrics.tolist()
        return {"val_acc": acc, "val_loss": loss, "views": views} if acc >= 0 else {}

    # Prediction --------------------------------------------------------------------------------

    def predict_nodes(self, batch: GraphBatch) -> Prediction:
        """The pooled class probabilities."""
        inputs = self._fit.views if self._fit is not None else self.view_inputs(batch)
        scales = dict(
            zip(self.views, zip(self.sharpness, self.pool_weights, strict=True), strict=True)
        )
        fitted_scores = equal_scores = torch.zeros((), device=self.device)
        parts: dict[str, Tensor] = {}
        for name, probs in self._predictions(batch, inputs):
            sharpness, weight = scales[name]
            log_probs = sharpness * log_probabilities(probs)
            fitted_scores = fitted_scores + weight * log_probs
            equal_scores = equal_scores + log_probs / len(self.views)
            parts[name] = probs.argmax(1)
        parts["equal_weights"] = equal_scores.argmax(1)
        probs = torch.softmax(fitted_scores, dim=1).to(batch.dtype)
        return Prediction(probs, parts=parts)

    def _predictions(self, batch: GraphBatch, inputs: ViewInputs) -> Iterator[tuple[str, Tensor]]:
        """Class probabilities of every node, view by view."""
        for name in self.with_graph:
            yield name, self._propagated(name, batch, inputs)
        for name, attributes in self.view_attributes(inputs):
            yield name, row_softmax(self.net_of(name)(attributes))

    def _propagated(self, name: str, batch: GraphBatch, inputs: ViewInputs) -> Tensor:
        x = None if name == "graph" else DenseFeatures(inputs.reduced)
        logits = batch.outputs(self.net_of(name), x)
        return self.propagated_prediction(logits, inputs.graph_of(self.views[name]))

    # Checkpoint --------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the best weights of each view, which a resumed training goes on from."""
        super().on_save_checkpoint(checkpoint)
        if "loops" in checkpoint:
            checkpoint["kept_views"] = self._kept
            checkpoint["views_out_of_fold"] = {
                name: view.state_dict() for name, view in self._views_out_of_fold.items()
            }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the best weights of each view."""
        super().on_load_checkpoint(checkpoint)
        self._kept = checkpoint.get("kept_views", {})
        for name, state in checkpoint.get("views_out_of_fold", {}).items():
            self._views_out_of_fold[name] = view = OutOfFold()
            view.load_state_dict(state)
