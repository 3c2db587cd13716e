"""Model, optimizer and scheduler are saved as objects in one file, and go on together."""

import io

import torch
from torch import nn

model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
x = torch.tensor([[0.5, -1.0], [1.5, 2.0], [-0.3, 0.2]])


def train(model, optimizer, scheduler):
    for _ in range(3):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        scheduler.step()
    return [round(v, 5) for v in model(x).flatten().tolist()]


train(model, optimizer, scheduler)
file = io.BytesIO()
torch.save([model, optimizer, scheduler], file)
file.seek(0)
again = torch.load(file, weights_only=False)
print(again[2].optimizer is again[1], again[1].param_groups[0]["params"][0] is again[0][0].weight)
print(train(*again), train(model, optimizer, scheduler), again[2].get_last_lr())
