"""Training is cut off after some steps, saved as a checkpoint with everything, and resumed from the file."""

import os
import tempfile
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Config:
    lr: float = 0.05
    widths: list = field(default_factory=lambda: [3, 5, 1])


def build(config):
    layers = []
    for a, b in zip(config.widths[:-1], config.widths[1:], strict=True):
        layers += [nn.Linear(a, b), nn.Tanh()]
    model = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-0.5, 0.5, p.numel()).reshape(p.shape))
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)


def train(model, optimizer, scheduler, steps):
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return loss.item()


config = Config()
model, optimizer, scheduler = build(config)
train(model, optimizer, scheduler, 3)
path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
torch.save(
    {
        "config": config,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": 3,
    },
    path,
)
straight = train(model, optimizer, scheduler, 4)
checkpoint = torch.load(path, map_location=torch.device("cpu"), weights_only=False)
model, optimizer, scheduler = build(checkpoint["config"])
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
scheduler.load_state_dict(checkpoint["scheduler"])
resumed = train(model, optimizer, scheduler, 4)
print(checkpoint["config"], checkpoint["epoch"], straight == resumed, round(resumed, 5), scheduler.get_last_lr())
