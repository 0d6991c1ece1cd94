"""scikit-learn: cross-validation and a grid search over the nodes of one graph."""

import networkx as nx
import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score

from pamt_lightning import Graph, PAMTClassifier

groups = nx.planted_partition_graph(4, 50, 0.12, 0.02, seed=0)
graph = Graph.from_networkx(groups, features=[])
nodes = np.array(groups)
y = np.array([groups.nodes[node]["block"] for node in groups])

# The graph is in the constructor; X are nodes, which scikit-learn can divide.
clf = PAMTClassifier("SGC", graph=graph, folds=2, trainer={"max_epochs": 50})
print(f"accuracy in five folds: {cross_val_score(clf, nodes, y, cv=5).round(2)}")

search = GridSearchCV(clf, {"model__lr": [0.01, 0.1], "method": ["SGC", "GCN"]}, cv=3)
search.fit(nodes, y)
print(search.best_params_)
