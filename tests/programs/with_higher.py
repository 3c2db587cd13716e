"""Gradients through an inner loop of training, by SGD and by Adam."""

import higher
import torch
from fixed import fill, show, waves

net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
fill(net)
x, y = waves(6, 2), waves(6, 1, step=0.3)
mse_loss = torch.nn.functional.mse_loss
found = {}
for make in (torch.optim.SGD, torch.optim.Adam):
    net.zero_grad()
    with higher.innerloop_ctx(net, make(net.parameters(), lr=0.1), copy_initial_weights=False) as (inner, optimizer):
        for _ in range(3):
            optimizer.step(mse_loss(inner(x), y))
        loss = mse_loss(inner(x * 0.5), y)
        loss.backward()
    found[make.__name__] = [loss, [parameter.grad for parameter in net.parameters()]]
show(**found)
