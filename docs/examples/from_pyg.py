"""PyTorch Geometric: train on a Data object with its own split, and go back."""

import torch
from torch_geometric.datasets import KarateClub

from pamt_lightning import Graph, RunConfig, run

data = KarateClub()[0]  # ships with the library
nodes = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
for name, part in zip(("train", "val", "test"), nodes.split([12, 10, 12]), strict=True):
    data[f"{name}_mask"] = torch.zeros(data.num_nodes, dtype=torch.bool)
    data[f"{name}_mask"][part] = True

graph = Graph.from_pyg(data)  # the masks become the split
config = RunConfig.create("GCN", data={"split": "given"}, trainer={"max_epochs": 200})
result = run(config, graph=graph, quiet=True)
print(f"{result.test_acc:.1%} of the test nodes are right")
print(graph.to_pyg())
