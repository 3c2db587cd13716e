"""Attention in windows, alone and inside a small language model."""

import torch
from fixed import fill, show, waves
from local_attention import LocalAttention, LocalTransformer

query, key, value = (waves(1, 2, 32, 8, step=step).requires_grad_() for step in (1.0, 1.3, 0.7))
attend = LocalAttention(dim=8, window_size=8, causal=True, look_backward=1, look_forward=0, autopad=True)
attended = attend(query, key, value, mask=torch.ones(1, 32).bool())
attended.square().sum().backward()
model = LocalTransformer(
    num_tokens=20, dim=16, depth=1, max_seq_len=32, causal=True, local_attn_window_size=8, heads=2, dim_head=8
)
fill(model, 0.2)
tokens = (torch.arange(64).reshape(2, 32) * 7) % 20
loss = model(tokens, return_loss=True)
loss.backward()
show(attended=attended, gradient=query.grad, loss=loss, logits=model(tokens)[0, -1])
