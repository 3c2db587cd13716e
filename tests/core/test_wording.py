"""Words for messages."""

from __future__ import annotations

import pytest

from extempo.core.wording import counted, did_you_mean


@pytest.mark.parametrize(
    ("n", "told"), [(0, "0 batches"), (1, "1 batch"), (2, "2 batches"), (12_000, "12,000 batches")]
)
def test_a_noun_agrees_with_its_number(n, told):
    assert counted(n, "batch", "batches") == told
    assert counted(n, "step") == told.replace("batches", "steps").replace("batch", "step")


def test_the_nearest_name_is_offered_and_a_distant_one_is_not():
    assert did_you_mean("val_loss", ["train_loss", "valid_loss"]) == "; did you mean 'valid_loss'?"
    assert did_you_mean("perplexity", ["train_loss", "valid_loss"]) == ""
    assert did_you_mean("anything", []) == ""
