"""A variational autoencoder on generated pictures of bars: 64 pixels through four numbers and back.

Each picture of 8 x 8 has one upright and one level bar, one to three pixels thick, at any place: 441 pictures, of which
some are held out. The four numbers have to carry all of it; new pictures are made by drawing them at random. The
training loop is `ex.train.Trainer`'s.

    python examples/vae.py
"""

from __future__ import annotations

import extempo as ex
from extempo import nn, optim
from extempo.data import DataLoader, TensorDataset
from extempo.nn import functional as F
from extempo.train import Trainer

SIZE, N_CODES = 8, 4


def all_pictures() -> ex.Tensor:
    bars = [range(first, first + thick) for thick in (1, 2, 3) for first in range(SIZE - thick + 1)]
    return ex.tensor(
        [
            [float(x in columns or y in rows) for y in range(SIZE) for x in range(SIZE)]
            for columns in bars
            for rows in bars
        ]
    )


class VAE(nn.Module):
    def __init__(self, n_hidden: int = 128) -> None:
        super().__init__()
        n_pixels = SIZE * SIZE
        self.encode = nn.Sequential(nn.Linear(n_pixels, n_hidden), nn.ReLU(), nn.Linear(n_hidden, 2 * N_CODES))
        self.decode = nn.Sequential(nn.Linear(N_CODES, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_pixels))

    def forward(self, pictures):
        mean, log_variance = self.encode(pictures).chunk(2, -1)
        noise = ex.randn_like(mean) if self.training else ex.zeros_like(mean)
        return self.decode(mean + noise * (0.5 * log_variance).exp()), mean, log_variance


def loss_of(output, pictures):
    """What a picture costs: its pixels, and how far its code is from a standard normal one."""
    scores, mean, log_variance = output
    pixels = F.binary_cross_entropy_with_logits(scores, pictures, reduction="sum")
    codes = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (pixels + codes) / len(pictures)


def show(*pictures: ex.Tensor) -> None:
    for y in range(SIZE):
        lines = [p.reshape(SIZE, SIZE)[y].tolist() for p in pictures]
        print("    ".join("".join("#" if on > 0.5 else "." for on in line) for line in lines))


def main(n_epochs: int = 150) -> None:
    ex.manual_seed(0)
    pictures = all_pictures()[ex.randperm(441)]
    train, held_out = pictures[:390], pictures[390:]
    model = VAE()
    trainer = Trainer(model, loss_of, optim.Adam(model.parameters(), lr=3e-3), progress=False)
    history = trainer.fit(
        DataLoader(TensorDataset(train, train), 30, shuffle=True),
        DataLoader(TensorDataset(held_out, held_out), len(held_out)),
        epochs=n_epochs,
    )
    for record in history.records[:: n_epochs // 5]:
        print(f"epoch {record['epoch']:3}  loss {record['train_loss']:6.2f}  held out {record['valid_loss']:6.2f}")
    print(history.observation())
    model.eval()
    with ex.no_grad():
        rebuilt = (model(held_out)[0] > 0).float()
        made = model.decode(ex.randn(3, N_CODES)).sigmoid()
    print("three pictures that were held out, and what comes back:")
    show(*held_out[:3], *rebuilt[:3])
    print("three that never were:")
    show(*made)
    right = (rebuilt == held_out).float().mean().item()
    plain = ((train.mean(0) > 0.5).float() == held_out).float().mean().item()
    print(f"{right:.1%} of the pixels of held-out pictures come back; the most frequent pixels would give {plain:.1%}")


if __name__ == "__main__":
    main()
