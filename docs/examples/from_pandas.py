"""pandas: a table of nodes with columns of all kinds, and a table of edges."""

import numpy as np
import pandas as pd

from pamt_lightning import Graph, classify

random = np.random.default_rng(0)
kind = random.integers(2, size=300)
nodes = pd.DataFrame(
    {
        "node_id": [f"shop{number}" for number in range(300)],
        "class": np.where(random.random(300) < 0.2, np.array(["food", "books"])[kind], None),
        "staff": np.where(random.random(300) < 0.1, np.nan, random.poisson(3 + 2 * kind)),
        "city": random.choice(["Rome", "Oslo", "Bonn"], 300),
        "opened": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(900, size=300), "D"),
    }
)
ends = random.integers(300, size=(3000, 2))
ends = ends[kind[ends[:, 0]] == kind[ends[:, 1]]]
edges = pd.DataFrame(nodes["node_id"].to_numpy()[ends], columns=["from", "to"])

frame = classify(Graph.from_pandas(nodes, edges), "PAMT", trainer={"max_epochs": 200})
print(frame.head())
print(f"{np.mean(frame['class'] == np.array(['food', 'books'])[kind]):.1%} are right")
