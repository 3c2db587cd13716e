"""A network of spiking neurons, trained through surrogate gradients."""

import snntorch
import torch
from fixed import fill, show, waves
from snntorch import surrogate

layer = torch.nn.Linear(3, 4)
fill(layer, 2.0)
neurons = snntorch.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid())
optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
found = []
for _ in range(3):
    membrane = neurons.init_leaky()
    total = torch.zeros(())
    for t in range(5):
        spikes, membrane = neurons(layer(waves(2, 3, step=t + 0.1)), membrane)
        total = total + spikes.sum() + membrane.mean()
    optimizer.zero_grad()
    total.backward()
    found.append([total, layer.weight.grad.clone()])
    optimizer.step()
show(found=found)
