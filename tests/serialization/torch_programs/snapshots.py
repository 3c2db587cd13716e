"""The best of several epochs is kept as a deep copy and as a file, with buffers and frozen layers."""

import copy
import os
import tempfile

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.ModuleDict({"conv": nn.Conv1d(1, 2, 3, padding=1), "norm": nn.BatchNorm1d(2)})
        self.rnn = nn.GRU(2, 3, batch_first=True)
        self.head = nn.ParameterList([nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(1))])
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("scratch", torch.ones(1), persistent=False)

    def forward(self, x):
        self.steps += 1
        h = self.features["norm"](self.features["conv"](x)).transpose(1, 2)
        return self.rnn(h)[0][:, -1] @ self.head[0] + self.head[1] * self.scratch


net = Net()
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.linspace(-0.4, 0.6, p.numel()).reshape(p.shape))
for p in net.features.parameters():
    p.requires_grad_(False)
x = torch.linspace(-1, 1, 10).reshape(2, 1, 5)
optimizer = torch.optim.RMSprop([p for p in net.parameters() if p.requires_grad], lr=0.01)
folder, best, kept = tempfile.mkdtemp(), float("inf"), None
for _ in range(4):
    optimizer.zero_grad()
    loss = ((net(x) - torch.tensor([1.0, -1.0])) ** 2).mean()
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best, kept = loss.item(), copy.deepcopy(net)
        torch.save(net, os.path.join(folder, "best.pt"))
back = torch.load(os.path.join(folder, "best.pt"), map_location="cpu", weights_only=False).eval()
kept.eval()
print(torch.equal(back(x), kept(x)), int(back.steps), [p.requires_grad for p in back.parameters()])
print([round(v, 4) for v in back(x).tolist()], round(best, 4), list(back.state_dict()) == list(net.state_dict()))
