"""Trees on many processes: the classifier of trees, trained by ranks that each draw other graphs.

    python examples/many_machines.py                       # alone
    extempo launch -n 2 examples/many_machines.py          # on two processes; mpirun and srun do as well

What is different from a program for one process: `init_process_group`, `DistributedDataParallel`, and a sampler that
gives every rank the same work, not only the same number of trees.
"""

from __future__ import annotations

import random

import extempo as ex
from extempo import distributed as dist
from extempo import nn, optim
from extempo.data import DataLoader
from extempo.nn.parallel import DistributedDataParallel as DDP


class TreeClassifier(nn.Module):
    """Is the first leaf of a tree larger than the last?"""

    def __init__(self, n_words: int, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(n_words, dim)
        self.compose = nn.NaryTreeLSTMCell(dim, dim, arity=2)
        self.out = nn.Linear(dim, 2)

    def state(self, tree):
        if isinstance(tree, int):
            return self.compose.leaf(self.embed(tree))
        return self.compose(*[self.state(child) for child in tree])

    def one(self, tree, label):
        return nn.functional.cross_entropy(self.out(self.state(tree).h), label)

    def forward(self, trees, labels):
        return ex.stack(ex.batch(self.one)(trees, labels)).mean()


def drawn(draws: random.Random, n_leaves: int):
    if n_leaves == 1:
        return draws.randrange(10)
    left = draws.randint(1, n_leaves - 1)
    return drawn(draws, left), drawn(draws, n_leaves - left)


def leaf(tree, which: int) -> int:
    return tree if isinstance(tree, int) else leaf(tree[which], which)


def cost(sample) -> int:
    return str(sample[0]).count(",")  # nodes that join two trees


def main() -> None:
    dist.init_process_group()
    ex.manual_seed(0)
    draws = random.Random(0)
    trees = [drawn(draws, draws.randint(2, 8)) for _ in range(456)]
    data = [(tree, int(leaf(tree, 0) > leaf(tree, -1))) for tree in trees]

    data, new = data[:256], data[256:]
    model = DDP(TreeClassifier(10, 24))
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    size = 32 // dist.get_world_size()
    sampler = dist.CostSampler(data, size, cost=lambda sample: str(sample[0]).count(","))
    loader = DataLoader(
        data, batch_size=size, sampler=sampler, collate_fn=lambda batch: tuple(zip(*batch, strict=True))
    )

    loss = ex.zeros(())
    for epoch in range(8):
        sampler.set_epoch(epoch)
        for batch, labels in loader:
            optimizer.zero_grad()
            loss = model(list(batch), list(labels))
            loss.backward()  # ends with the mean of all ranks' gradients, though their graphs differ
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {mean.item():.3f}, number of ranks {dist.get_world_size()}")
    if dist.get_rank() == 0:
        with ex.no_grad():
            found = ex.batch(lambda tree: model.module.out(model.module.state(tree).h))([tree for tree, _ in new])
        n_right = sum(int(scores.argmax()) == label for scores, (_, label) in zip(found, new, strict=True))
        print(f"right for {n_right} of 200 new trees")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
