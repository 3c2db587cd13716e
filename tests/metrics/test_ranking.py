"""Areas under curves: how well scores rank."""

from __future__ import annotations

import numpy as np

from extempo import metrics as M


def test_labels_of_sequences_are_ranked_like_those_of_their_steps():
    rng = np.random.RandomState(0)
    truth, scores = rng.randint(0, 2, (4, 6, 3)), rng.rand(4, 6, 3)
    for metric in (M.ROCAUC, M.PRAUC):
        flat = metric(None).update(truth.reshape(-1, 3), scores.reshape(-1, 3)).compute()
        np.testing.assert_allclose(metric(None).update(truth, scores).compute(), flat)
