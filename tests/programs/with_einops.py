"""Patches of images by einops, in functions and in layers."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from fixed import fill, show

images = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8).requires_grad_()
net = torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
    torch.nn.Linear(48, 5),
    EinMix("b n d -> b n e", weight_shape="d e", bias_shape="e", d=5, e=6),
    Reduce("b n d -> b d", "mean"),
)
fill(net)
scores = net(images)
scores.square().sum().backward()
packed, shapes = pack([images, images[:, :, 0]], "b c *")
show(
    scores=scores,
    gradient=images.grad,
    products=einsum(images, images, "b c h w, b d h w -> b c d"),
    sizes=[part.shape[-1] for part in unpack(packed, shapes, "b c *")],
    repeated=repeat(images[0, 0], "h w -> h w k", k=2).sum(),
    largest=reduce(images, "b c h w -> b c", "max"),
    turned=rearrange(images, "b c h w -> (b h) (w c)")[3],
)
