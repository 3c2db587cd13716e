"""Transformers with rotary and ALiBi positions, a loss, gradients, and greedy generation."""

import torch
from fixed import fill, show
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper

tokens = (torch.arange(2 * 16).reshape(2, 16) * 7) % 20
layers = Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True)
decoder = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers)
fill(decoder, 0.2)
logits = decoder(tokens)
loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens)
loss.backward()
gradient = sum(p.grad.abs().sum() for p in decoder.parameters() if p.grad is not None)
encoder = TransformerWrapper(
    num_tokens=20, max_seq_len=16, attn_layers=Encoder(dim=32, depth=2, heads=4, alibi_pos_bias=True)
)
fill(encoder, 0.2)
language = AutoregressiveWrapper(decoder)
show(
    logits=logits,
    loss=loss,
    gradient=gradient,
    encoded=encoder(tokens, mask=torch.ones(2, 16).bool())[0, 0],
    language=language(tokens),
    generated=language.generate(tokens[:, :4], 8, temperature=0.0),
)
