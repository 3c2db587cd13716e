"""Sparse relatives of softmax, their gradients and losses."""

import torch
from entmax import entmax15, entmax15_loss, entmax_bisect, sparsemax, sparsemax_loss
from fixed import show, waves

x = waves(4, 6).requires_grad_()
found = {}
for name, function in {"sparsemax": sparsemax, "1.5": entmax15, "1.3": lambda x: entmax_bisect(x, alpha=1.3)}.items():
    y = function(x)
    found[name] = [y, torch.autograd.grad((y * torch.arange(6.0)).sum(), x)[0]]
targets = torch.tensor([0, 1, 2, 3])
show(**found, losses=[sparsemax_loss(x, targets), entmax15_loss(x, targets)])
