"""Vectors rounded to a codebook, straight-through gradients, finite scalar quantisation."""

import torch
from fixed import fill, show, waves
from vector_quantize_pytorch import FSQ, VectorQuantize

x = waves(2, 10, 8, step=1.1).requires_grad_()
quantizer = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
quantizer.codebook = torch.cos(torch.arange(16 * 8.0).reshape(16, 8))
quantizer.eval()
rounded, indices, _ = quantizer(x)
quantizer.train()
trained, _, loss = quantizer(x)
(trained.sum() + loss.sum()).backward()
scalar = FSQ(levels=[8, 5, 5, 5], dim=8)
fill(scalar, 0.5)
by_scalar, scalar_indices = scalar(x)
show(
    rounded=rounded,
    indices=indices,
    loss=loss,
    gradient=x.grad,
    scalar=by_scalar,
    scalar_indices=scalar_indices,
)
