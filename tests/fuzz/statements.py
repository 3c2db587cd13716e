"""The lines that random programs are made of.

In a line, `{a}` and `{b}` are floating tensors, `{i}` an integer one, `{q}` one of bools, `{x}` any tensor, `{d}` a
dimension of the first tensor, `{c}` a number, `{n}` a small int, `{t}` a floating dtype; `{o}` is the new name.

EXACT lines compute without rounding small multiples of 1/8, which inputs are. STEPS turn the last bit of an input into
another answer, so they take only what was computed exactly. WRITES change what others may see.
"""

from __future__ import annotations

EXACT = """
{o} = {a} + {b}
{o} = {a} - {b}
{o} = -{a}
{o} = {a} * {n}
{o} = {a} * 0.5
{o} = {a}.abs()
{o} = lib.maximum({a}, {b})
{o} = lib.minimum({a}, {b})
{o} = F.relu({a})
{o} = {a}.clamp(-1.0, {c})
{o} = {a}.clamp(min={b})
{o} = {a}.T if {a}.dim() == 2 else {a}.reshape(-1)
{o} = {a}.transpose({d}, -1)
{o} = {a}.permute(list(reversed(range({a}.dim()))))
{o} = {a}.reshape(-1)
{o} = {a}.reshape(1, -1)
{o} = {a}.reshape(-1, 1)
{o} = {a}.flatten()
{o} = {a}.unsqueeze({d})
{o} = {a}.squeeze()
{o} = {a}.squeeze({d})
{o} = {a}.contiguous()
{o} = {a}.clone()
{o} = {a}.detach()
{o} = {a}[0]
{o} = {a}[-1:]
{o} = {a}[::2]
{o} = {a}[..., :1]
{o} = {a}[..., 1:]
{o} = {a}[..., -1]
{o} = {a}[None]
{o} = {a}[[0, -1]]
{o} = {a}[{i}]
{o} = {a}[..., {i}]
{o} = {a}[{a} > {c}]
{o} = {a}.narrow({d}, 0, 1)
{o} = {a}.select({d}, 0)
{o} = {a}.expand(2, *{a}.shape)
{o} = {a}.expand_as({b})
{o} = {a}.repeat(2, *[1] * ({a}.dim() - 1))
{o} = {a}.flip({d})
{o} = {a}.roll(1, {d})
{o} = {a}.movedim({d}, 0)
{o} = {a}.unfold({d}, 1, 1)
{o} = {a}.diagonal() if {a}.dim() > 1 else {a}[:1]
{o} = lib.cat([{a}, {b}], {d})
{o} = lib.stack([{a}, {b}], {d})
{o} = {a}.split(1, {d})[0]
{o} = {a}.chunk(2, {d})[-1]
{o} = lib.where({q}, {a}, {b})
{o} = lib.where({a} > {b}, {a}, {c})
{o} = {a}.masked_fill({q}, {c})
{o} = {a}.sum()
{o} = {a}.sum({d})
{o} = {a}.sum({d}, keepdim=True)
{o} = {a}.amax({d})
{o} = {a}.amin({d}, keepdim=True)
{o} = {a}.max()
{o} = {a}.max({d}).values
{o} = {a}.cumsum({d})
{o} = {a}.tril()
{o} = {a}.triu(1)
{o} = {a}.index_select({d}, {i}.reshape(-1).abs().clamp(max=0))
{o} = {a}.gather({d}, lib.zeros_like({a}, dtype=lib.int64))
{o} = lib.zeros_like({a}).scatter_add({d}, lib.zeros_like({a}, dtype=lib.int64), {a})
{o} = lib.zeros_like({a}).index_add(0, lib.arange({a}.shape[0]), {a})
{o} = F.pad({a}, (1, 2))
{o} = F.pad({a}, (0, 1, 1, 0), value={c})
{o} = lib.zeros_like({a}) + {b}
{o} = {a}.to(lib.float64)
{o} = {x}.to({t})
{o} = {i} + {a}
{o} = {q} * {a}
{o} = {a}.new_ones({a}.shape) - {a}
{o} = lib.outer({a}.reshape(-1)[:3], lib.ones(2, dtype={a}.dtype))
{o} = lib.broadcast_tensors({a}, {b})[0]
{o} = lib.atleast_2d({a})
""".strip().splitlines()
ROUNDED = """
{o} = {a} * {b}
{o} = {a} / ({b} * {b} + 1.0)
{o} = {a} * {c}
{o} = {c} - {a}
{o} = {a} / 3.0
{o} = lib.tanh({a})
{o} = lib.sigmoid({a})
{o} = lib.exp(-{a}.abs())
{o} = lib.sin({a}) + lib.cos({b})
{o} = lib.sqrt({a} * {a} + 1.0)
{o} = lib.log1p({a} * {a})
{o} = lib.rsqrt({a}.square() + 0.5)
{o} = lib.erf({a})
{o} = lib.atan2({a}, {b}.abs() + 1.0)
{o} = lib.pow({a}.abs() + 0.5, {c})
{o} = {a} ** 2
{o} = {a} ** 3
{o} = lib.lerp({a}, {b}, 0.25)
{o} = lib.addcmul({a}, {a}, {b}, value=0.5)
{o} = F.gelu({a})
{o} = F.silu({a})
{o} = F.softplus({a})
{o} = F.elu({a})
{o} = F.leaky_relu({a}, 0.1)
{o} = F.hardswish({a})
{o} = F.logsigmoid({a})
{o} = F.softmax({a}, {d})
{o} = F.log_softmax({a}, {d})
{o} = {a}.softmax({d}) @ {a}.softmax({d}).transpose(-1, -2)
{o} = {a}.logsumexp({d})
{o} = {a}.mean()
{o} = {a}.mean({d}, keepdim=True)
{o} = {a}.var({d}, unbiased=False)
{o} = {a}.std({d}, unbiased=False)
{o} = {a}.norm()
{o} = lib.linalg.vector_norm({a} + 1.0, dim={d})
{o} = {a}.prod({d})
{o} = {a}.cumprod({d})
{o} = {a} @ {b}
{o} = {a} @ {b}.transpose(-1, -2)
{o} = {a}.transpose(-1, -2) @ {b}
{o} = {a} @ {a}.transpose(-1, -2)
{o} = lib.matmul({a}, {b}.T)
{o} = lib.einsum("...i,...i->...", {a}, {b})
{o} = lib.einsum("ij,kj->ik", {a}, {b})
{o} = lib.einsum("ij,jk->ki", {a}, {b})
{o} = lib.dot({a}.reshape(-1), {a}.reshape(-1))
{o} = F.linear({a}, {b})
{o} = F.linear({a}, {b}, {b}.sum(1))
{o} = lib.bmm({a}, {b}.transpose(1, 2))
{o} = lib.addmm({b}, {a}, {a}.T)
{o} = lib.tensordot({a}, {b}, 1)
{o} = F.layer_norm({a}, {a}.shape[-1:])
{o} = F.normalize({a} + 0.5, dim={d})
{o} = F.mse_loss({a}, {b})
{o} = F.smooth_l1_loss({a}, {b}.detach())
{o} = F.binary_cross_entropy_with_logits({a}, lib.sigmoid({b}))
{o} = F.cosine_similarity({a} + 0.5, {b} + 0.25, dim={d})
{o} = F.avg_pool1d({a}, 2)
{o} = F.max_pool1d({a}, 1)
{o} = F.conv1d({a}, {b})
{o} = F.conv1d({a}, {a}.transpose(0, 1), padding=1) if {a}.dim() == 3 else {a} * 0.3
{o} = F.adaptive_avg_pool1d({a}, 2)
{o} = F.scaled_dot_product_attention({a}, {a}, {a})
{o} = lib.logaddexp({a}, {b})
{o} = lib.hypot({a} + 0.5, {b})
{o} = {a}.mul({b}).add({a}, alpha=0.5)
{o} = {a}.expm1().div(2)
{o} = {a}.sinh().cosh().reciprocal()
{o} = {a}.float() + {b}.double()
{o} = {a}.half() * 0.3
{o} = {a}.to(lib.bfloat16) * 0.3
{o} = ({a} * 1.5).sum() * {b}
{o} = {a} * lib.arange({a}.shape[-1])
{o} = {a} + lib.linspace(0, 1, {a}.shape[-1], dtype={a}.dtype)
""".strip().splitlines()
STEPS = """
{o} = {a} > {b}
{o} = {a} == {b}
{o} = {a} <= {c}
{o} = {a}.floor()
{o} = {a}.round()
{o} = {a}.trunc()
{o} = {a}.sign()
{o} = {a} % 0.75
{o} = {a} // 0.75
{o} = lib.fmod({a}, 0.75)
{o} = lib.heaviside({a}, {b})
{o} = {a}.argmax({d})
{o} = {a}.argmin()
{o} = {a}.sort({d}).values
{o} = {a}.sort({d}, stable=True).indices
{o} = {a}.topk(1, {d}).values
{o} = {a}.median({d}).values
{o} = {a}.unique()
{o} = {a}.nonzero()
{o} = {a}.count_nonzero()
{o} = {a}.any({d})
{o} = {a}.bool()
{o} = {a}.long()
{o} = {a}.int()
{o} = {a}.isclose({b})
{o} = lib.searchsorted({a}.reshape(-1).sort().values, {b}.to({a}.dtype).contiguous())
{o} = lib.isnan({a})
""".strip().splitlines()
WHOLE = """
{o} = {i} + {i}
{o} = {i} * {n}
{o} = {i} // 2
{o} = {i} % 3
{o} = -{i}
{o} = {i}.abs()
{o} = {i} & 3
{o} = {i} ^ {i}
{o} = {i} << 1
{o} = {i} > 0
{o} = {i}.sum()
{o} = {i}.sum({d})
{o} = {i}.cumsum({d})
{o} = {i}.max()
{o} = {i}.argmax()
{o} = {i}.clamp(0, 2)
{o} = {i}.to(lib.int32)
{o} = {i}.to(lib.uint8)
{o} = {i}.to(lib.bool)
{o} = {i}.T
{o} = {i}[::2]
{o} = {i} / 2
{o} = lib.where({q}, {i}, 0)
{o} = {q} & {q}
{o} = {q} | {q}
{o} = ~{q}
{o} = {q}.sum()
{o} = {q}.all()
{o} = {q}.any({d})
{o} = {q}.long()
{o} = {q}.reshape(-1)
{o} = lib.bincount({i}.reshape(-1).abs())
{o} = F.one_hot({i}.reshape(-1).abs().long())
{o} = lib.arange({n})
{o} = lib.cat([{x}.reshape(-1), {x}.reshape(-1)])
{o} = {x}.unsqueeze(0).transpose(0, -1)
{o} = lib.full_like({x}, 1)
""".strip().splitlines()
WRITES = """
{a}.add_({b}); {o} = {a} * 0.5
{a}.mul_(0.5); {o} = {a} + 1.0
{a}.copy_({b}); {o} = {a} - 1.0
{a}.zero_(); {o} = {a} + 1.0
{a}[0] = {c}; {o} = {a} + 0.25
{a}[..., :1] = {b}; {o} = {a} + 0.25
{a}[{a} > 0] = {c}; {o} = {a} + 0.25
{a}.T.add_(1); {o} = {a} * 2
{o} = {a} * 1.0; {o}.relu_()
{o} = {a} * 1.0; {o}.tanh_()
{o} = {a}.clone(); {o}[..., 0] = {c}
{o} = {a}.clone(); {o}[0] += {b}
{o} = {a} + 0.0; {o}.sub_({b}).div_(2)
{o} = {a} * 2.0; {o}.transpose(0, -1).clamp_(-1, 1)
{o} = {a}.clone(); {o}[::2].neg_()
{o} = {a}.clone(); {o}.masked_fill_({q}, {c})
{o} = {a}.clone(); {o}.index_fill_({d}, lib.tensor([0]), {c})
{o} = {a}.clone(); {o}.fill_diagonal_(0.5)
{o} = {i}.clone(); {o} += 1
{o} = {i} * 1; {o}[0] = 2
""".strip().splitlines()
FLOWS = """
{o} = {a} * 0.5 if float({e}.sum()) > {c} else {a} + 1.0
{o} = {a} + len({e}.tolist()) if {e}.dim() else {a}
{o} = sum(row * 0.5 for row in {a}) if {a}.dim() and {a}.shape[0] else {a}
{o} = lib.stack([part * k for k, part in enumerate({a}.unbind({d}))]) if {a}.dim() and {a}.shape[{d}] else {a}
{o} = {a} + 0.0\\nfor turn in range({n}):\\n    {o} = {o} * 0.5 + {b}
{o} = {a} * 1.0\\nwhile {o}.numel() and float({o}.abs().sum()) > 1e4:\\n    {o} = {o} * 0.5
with lib.no_grad():\\n    {o} = {a} * 1.5
""".strip().splitlines()
