"""A Bayesian regression: the most likely weights by stochastic variational inference, log densities of a trace."""

import pyro
import pyro.distributions as dist
import torch
from fixed import show, waves
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta

x = waves(20, 2)
y = x @ torch.tensor([1.5, -0.7]) + 0.3


def model(x, y=None):
    weights = pyro.sample("weights", dist.Normal(torch.zeros(2), torch.ones(2)).to_event(1))
    bias = pyro.sample("bias", dist.Normal(0.0, 1.0))
    scale = pyro.sample("scale", dist.HalfNormal(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(x @ weights + bias, scale + 0.1), obs=y)


guide = AutoDelta(
    model,
    init_loc_fn=pyro.infer.autoguide.init_to_value(
        values={"weights": torch.full((2,), 0.2), "bias": torch.tensor(0.2), "scale": torch.tensor(1.2)}
    ),
)
inference = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
losses = [inference.step(x, y) for _ in range(40)]
values = {"weights": torch.ones(2), "bias": torch.tensor(0.0), "scale": torch.tensor(0.5)}
trace = pyro.poutine.trace(pyro.condition(model, data=values)).get_trace(x, y)
correlations = dist.LKJCholesky(3, 2.0).log_prob(torch.linalg.cholesky(torch.eye(3) * 0.5 + 0.5))
low_rank = dist.LowRankMultivariateNormal(torch.zeros(3), waves(3, 1), torch.ones(3))
show(
    losses=losses[::5],
    best=dict(guide.median(x)),
    trace=trace.log_prob_sum(),
    correlations=correlations,
    low_rank=[low_rank.log_prob(waves(2, 3)), low_rank.entropy()],
)
