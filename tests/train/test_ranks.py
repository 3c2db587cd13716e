"""A Trainer among processes needs no change: it learns what one process learns from the same batches."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import extempo as ex
from extempo.train.positions import Position
from extempo.train.ranks import NO_BATCH, RankBatches, Ranks


class Group:
    """Stands for a group of some size."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = lambda: rank
        self.size = lambda: size


def test_one_process_has_everything_to_itself():
    ranks = Ranks()
    data = [1, 2, 3]
    assert ranks.is_first
    assert ranks.share(data) is data
    assert ranks.begin(ex.nn.Linear(1, 1)) is None
    assert ranks.agreed("why") == "why"
    assert ranks.tell(3) == 3
    position = Position()
    assert ranks.merged(position, {}) == (position, {})
    ranks.exchange(1)


def test_batches_are_dealt_out_in_turn():
    parts = [list(RankBatches("abcde", Group(rank, 2))) for rank in range(2)]
    assert parts == [["a", "c", "e"], ["b", "d", NO_BATCH]]
    loader = ex.data.DataLoader(ex.arange(5), batch_size=1)
    parts = [RankBatches(loader, Group(rank, 2)) for rank in range(2)]
    assert [len(part) for part in parts] == [3, 3]
    found = [[NO_BATCH if b is NO_BATCH else b.tolist() for b in part] for part in parts]
    assert found == [[[0], [2], [4]], [[1], [3], NO_BATCH]]


_spec = importlib.util.spec_from_file_location(
    "ranks_conftest", Path(__file__).parent.parent / "distributed" / "conftest.py"
)
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
start_ranks, run_ranks = _shared.start_ranks, _shared.run_ranks

PROGRAM = """
    import sys
    import extempo as ex
    from extempo import nn, optim, distributed as dist
    import extempo.nn.functional as F
    from extempo.data import DataLoader, TensorDataset
    from extempo.metrics import Accuracy
    from extempo.train import Trainer
    if len(sys.argv) > 2:
        dist.init_process_group()
    ex.manual_seed(dist.get_rank())
    drawn = ex.Generator().manual_seed(1)
    x = ex.randn(28, 4, generator=drawn, dtype=ex.float64)
    y = (x[:, 0] > 0).long()
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to(ex.float64)
    with ex.no_grad():
        for p in model.parameters():
            p.copy_(ex.linspace(-1, 1, p.numel(), dtype=ex.float64).reshape(p.shape))
    size = 8 // dist.get_world_size()
    loader = DataLoader(TensorDataset(x, y), batch_size=size)
    folder, stop = sys.argv[1], sys.argv[-1] == "stop"
    adam = optim.Adam(model.parameters(), lr=0.05)
    trainer = Trainer(model, F.cross_entropy, adam, [Accuracy()], log_dir=folder, checkpoint_every=1)

    class Stop(ex.train.Callback):
        def on_step(self, trainer, loss):
            if stop and trainer.n_steps == 5 and dist.get_rank():
                trainer.stop = "enough"

    trainer.callbacks.append(Stop())
    history = trainer.fit(loader, loader, epochs=3, resume=sys.argv[-1] == "resume")
    if not stop:
        last = history.records[-1]
        print("figures", *(f"{last[k]:.9f}" for k in ("train_loss", "valid_loss", "train_accuracy", "valid_accuracy")))
        print("weights", f"{sum(float(p.detach().sum()) for p in model.parameters()):.9f}")
"""


@pytest.mark.slow
def test_two_ranks_learn_what_one_learns_and_go_on_after_a_stop(run_ranks, tmp_path):
    folders = [str(tmp_path / name) for name in ("one", "two", "stopped")]
    found = []
    for n, args in (
        (1, (folders[0],)),
        (2, (folders[1], "ranks")),
        (2, (folders[2], "ranks", "stop")),
        (2, (folders[2], "ranks", "resume")),
    ):
        status, printed, errors = run_ranks(PROGRAM, n, args=args)
        assert status == 0, errors
        found.append([[line for line in lines if line.startswith(("figures", "weights"))] for lines in printed])
        assert all("epoch" not in line for lines in printed[1:] for line in lines)  # progress on rank 0 alone
    assert found[1] == [found[0][0], found[0][0]]
    assert found[2] == [[], []]
    assert found[3] == found[1]
    assert (tmp_path / "two" / "history.json").exists()
