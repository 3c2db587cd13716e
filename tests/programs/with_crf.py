"""A conditional random field: likelihood with a mask, gradients, decoding."""

import torch
from fixed import fill, show, waves
from torchcrf import CRF

crf = CRF(5, batch_first=True)
fill(crf)
emissions = waves(2, 7, 5).requires_grad_()
tags = torch.tensor([[0, 1, 2, 3, 4, 0, 1], [1, 1, 0, 2, 3, 0, 0]])
mask = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
loss = -crf(emissions, tags, mask=mask)
loss.backward()
show(loss=loss, emissions=emissions.grad, transitions=crf.transitions.grad, best=crf.decode(emissions, mask=mask))
