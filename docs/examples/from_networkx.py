"""NetworkX: who goes with whom when Zachary's karate club splits, from four known members."""

import networkx as nx

from pamt_lightning import Graph, PAMTClassifier

club = nx.karate_club_graph()
known = {0, 1, 32, 33}
for member, facts in club.nodes(data=True):
    facts["side"] = facts["club"] if member in known else None

# There are no attributes, so they come from the structure; edges are weighted.
graph = Graph.from_networkx(club, label="side", features=[], weight="weight")
print(graph)

clf = PAMTClassifier("PAMT", folds=2, trainer={"max_epochs": 200}).fit(graph)
frame = clf.predict_frame()
print(frame.head())

truth = [facts["club"] for _, facts in club.nodes(data=True)]
right = frame["class"] == truth
print(f"{right.sum()} of {len(right)} members are on the side that they chose")
