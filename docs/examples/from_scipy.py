"""SciPy: attributes and edges as sparse matrices."""

import numpy as np
import scipy.sparse as sp

from pamt_lightning import PAMTClassifier

random = np.random.default_rng(0)
y = random.integers(3, size=600)
words = sp.random_array((600, 200), density=0.02, random_state=random, format="lil")
words[np.arange(600), 10 * y + random.integers(10, size=600)] = 1.0
ends = random.integers(600, size=(2, 6000))
ends = ends[:, y[ends[0]] == y[ends[1]]]
adjacency = sp.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(600, 600))

known = np.where(random.random(600) < 0.1, y, -1)  # -1: unknown
clf = PAMTClassifier("PAMT_plus", trainer={"max_epochs": 100})
clf.fit(words.tocsr(), known, adjacency=adjacency)
hidden = known < 0
print(f"{np.mean(clf.predict()[hidden] == y[hidden]):.1%} of the hidden labels are right")

clf.save("classifier.npz")
again = PAMTClassifier.load("classifier.npz")
print((again.predict() == clf.predict()).all())
