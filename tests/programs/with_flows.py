"""Normalizing flows of three libraries: likelihoods and training steps."""

import nflows.distributions
import nflows.flows
import nflows.transforms
import normflows
import torch
import zuko
from fixed import fill, show, waves

x = waves(8, 2)


def train(flow, loss_of):
    fill(flow)
    optimizer = torch.optim.Adam(flow.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_of(flow)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


autoregressive = nflows.transforms.MaskedAffineAutoregressiveTransform(features=2, hidden_features=4)
steps = nflows.transforms.CompositeTransform([nflows.transforms.ReversePermutation(2), autoregressive])
coupling = normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 8, 2], init_zeros=True))
real = normflows.NormalizingFlow(
    normflows.distributions.base.DiagGaussian(2), [coupling, normflows.flows.Permute(2, mode="swap")]
)
show(
    nflows=train(
        nflows.flows.Flow(steps, nflows.distributions.StandardNormal([2])), lambda flow: -flow.log_prob(x).mean()
    ),
    normflows=train(real, lambda flow: flow.forward_kld(x)),
    zuko=train(zuko.flows.MAF(2, 0, transforms=2, hidden_features=(8, 8)), lambda flow: -flow().log_prob(x).mean()),
    spline=train(
        zuko.flows.NSF(2, 1, transforms=1, hidden_features=(8,)),
        lambda flow: -flow(torch.ones(8, 1)).log_prob(x).mean(),
    ),
)
