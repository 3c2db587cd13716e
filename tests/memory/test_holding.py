"""Who keeps graphs alive."""

from __future__ import annotations

import extempo as ex
from extempo import nn
from extempo.memory.holding import n_live_nodes

MODEL = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def loss_of():
    return MODEL(ex.ones(3, 4)).pow(2).mean()


def test_a_sum_of_losses_keeps_every_iteration():
    total = 0.0
    for _ in range(40):
        loss = loss_of()
        total += loss
    held = next(h for h in ex.memory.holders() if "'total'" in h.name)
    assert held.n_iterations == 40
    assert held.n_nodes == 240
    assert held.code == "total += loss"
    assert held.line.endswith(
        f"test_holding.py:{test_a_sum_of_losses_keeps_every_iteration.__code__.co_firstlineno + 4}"
    )
    assert "`total += loss` at" in str(held)
    assert "keeps 240 nodes of 40 iterations" in str(held)
    del total, loss


def test_a_list_of_losses_is_one_holder():
    losses = [loss_of() for _ in range(7)]
    held = next(h for h in ex.memory.holders() if "'losses'" in h.name)
    assert (held.n_tensors, held.n_iterations) == (7, 7)
    assert held.name.startswith("'losses' (list of 7)")
    assert len(losses) == 7


class Meter:
    def __init__(self):
        self.state = ex.zeros(())


def test_an_attribute_is_named_by_its_class():
    meter = Meter()
    keep = [meter]  # found by its attribute, not as a variable
    for _ in range(3):
        meter.state = meter.state + loss_of()
    assert any(h.name == "Meter.state" and h.n_iterations == 3 for h in ex.memory.holders().accumulating)
    assert keep


def test_detached_losses_and_no_grad_keep_nothing():
    before = n_live_nodes()
    total = 0.0
    for _ in range(5):
        total += loss_of().detach()
    with ex.no_grad():
        kept = [loss_of() for _ in range(5)]
    assert n_live_nodes() == before
    assert not [h for h in ex.memory.holders() if "'total'" in h.name or "'kept'" in h.name]
    assert len(kept) == 5


def test_it_prints_as_text_table_and_json():
    w = ex.ones(3, requires_grad=True)
    state = w * 2 + 1
    found = ex.memory.holders()
    assert "nodes" in str(found)
    assert len(found.as_dict()["holders"]) == len(found) == len(found.table.rows)
    assert "<table" in found._repr_html_()
    del state
    assert str(ex.memory.holders(least=10**9)) == "nobody keeps a graph alive"
