"""A variational autoencoder on generated pictures of discs: 144 pixels through three numbers and back.

Each picture of 12 x 12 has one disc, of any size at any place. Nobody tells the model that size and two coordinates say
all of it, but three numbers have to do. New pictures are made from three numbers drawn at random, and the program
counts how many of these are discs. The training loop is `ex.train.Trainer`'s.

    python examples/vae.py
"""

from __future__ import annotations

import extempo as ex
from extempo import nn, optim
from extempo.data import DataLoader, TensorDataset
from extempo.nn import functional as F
from extempo.train import Trainer

SIZE, N_CODES = 12, 3
SHADES = " .:oO@"
CLOSE = 0.03  # difference of a mean pixel up to which a picture counts as a disc


def draw_discs(n: int) -> ex.Tensor:
    """Pictures (n, pixels), from 0 outside to 1 inside."""
    radius = 2 + 2 * ex.rand(n, 1, 1)
    across, down = (radius - 0.5 + (SIZE - 2 * radius) * ex.rand(n, 1, 1) for _ in range(2))
    place = ex.arange(SIZE).float()
    distance = ((place - across).square() + (place.unsqueeze(1) - down).square()).sqrt()
    return (radius - distance + 0.5).clamp(0, 1).flatten(1)


def three_layers(n_in: int, n_out: int, n_hidden: int = 128) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(n_in, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_out)
    )


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = three_layers(SIZE * SIZE, 2 * N_CODES)
        self.decode = three_layers(N_CODES, SIZE * SIZE)

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


def show(pictures: ex.Tensor) -> None:
    rows = pictures.reshape(-1, SIZE, SIZE).transpose(0, 1).tolist()  # of all pictures side by side
    for row in rows:
        texts = ("".join(2 * SHADES[round(pixel * (len(SHADES) - 1))] for pixel in line) for line in row)
        print(f"|{'|'.join(texts)}|")


def n_discs(pictures: ex.Tensor) -> int:
    """How many are close to one of many discs."""
    discs = draw_discs(20_000)
    return sum((discs - picture).abs().mean(1).min().item() < CLOSE for picture in pictures)


def main(n_epochs: int = 100, batch_size: int = 50) -> None:
    ex.manual_seed(0)
    train, held_out = draw_discs(1500), draw_discs(200)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, n_epochs)
    trainer = Trainer(model, loss_of, optimizer, scheduler=schedule, progress=False)
    history = trainer.fit(
        DataLoader(TensorDataset(train, train), batch_size, shuffle=True),
        DataLoader(TensorDataset(held_out, held_out), len(held_out)),
        epochs=n_epochs,
    )
    for record in history.records[n_epochs // 5 - 1 :: n_epochs // 5]:
        print(f"epoch {record['epoch']:3}  loss {record['train_loss']:6.2f}  held out {record['valid_loss']:6.2f}")
    model.eval()
    with ex.no_grad():
        rebuilt = model(held_out)[0].sigmoid()
        made = model.decode(ex.randn(100, N_CODES)).sigmoid()
    print("three pictures that were held out:")
    show(held_out[:3])
    print("what comes back of them:")
    show(rebuilt[:3])
    print("three that never were:")
    show(made[:3])
    error, usual = ((found - held_out).abs().mean().item() for found in (rebuilt, train.mean(0)))
    print(f"held-out pixels come back within {error:.3f} on average, the mean picture is off by {usual:.3f};")
    blends = (held_out[:100] + held_out[100:]) / 2
    print(f"{n_discs(made)} of 100 made pictures are discs; of 100 blends of two discs, {n_discs(blends)} are")


if __name__ == "__main__":
    main()
