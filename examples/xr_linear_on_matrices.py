"""How is XR-Linear used on other data? A sparse matrix of rows and one of labels are enough."""

import numpy as np
import scipy.sparse as sp

import matchset as ms

rng = np.random.default_rng(0)
n_rows, n_features, n_labels = 2_000, 300, 100
profiles = rng.random((n_labels, n_features)) < 0.03  # features that speak for a label
labels = rng.integers(n_labels, size=n_rows)
X = sp.csr_array((profiles[labels] & (rng.random((n_rows, n_features)) < 0.5)).astype(np.float32))
Y = sp.csr_array((np.ones(n_rows, np.float32), (np.arange(n_rows), labels)), (n_rows, n_labels))

estimator = ms.XRLinear(branching=8, max_leaf_size=10).fit(X[:1_500], Y[:1_500])
scores = estimator.decision_function(X[1_500:], k=3)  # the three best labels of each row
best = scores.indices[scores.indptr[:-1]]
print(f"the best label is right for {np.mean(best == labels[1_500:]):.0%} of the rows")
