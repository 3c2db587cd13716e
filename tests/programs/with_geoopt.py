"""Riemannian optimisation on the sphere, in the Poincare ball and on the Stiefel manifold."""

import geoopt
import torch
from fixed import show, waves


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


def steps(optimizer, loss, n=4):
    losses = []
    for _ in range(n):
        optimizer.zero_grad()
        losses.append(loss())
        losses[-1].backward()
        optimizer.step()
    return losses


ball = geoopt.PoincareBall(c=1.0)
x, y = waves(3, 2) * 0.3, waves(3, 2, step=3.0) * 0.3
on_sphere = geoopt.ManifoldParameter(unit(waves(3, 4)), manifold=geoopt.Sphere())
in_ball = geoopt.ManifoldParameter(x.clone(), manifold=ball)
frame = geoopt.ManifoldParameter(torch.linalg.qr(waves(4, 3) + torch.eye(4, 3))[0], manifold=geoopt.Stiefel())
target = unit(waves(3, 4, step=2.0))
show(
    sphere=steps(geoopt.optim.RiemannianAdam([on_sphere], lr=0.05), lambda: (on_sphere - target).pow(2).sum()),
    norms=on_sphere.norm(dim=-1),
    ball=steps(geoopt.optim.RiemannianSGD([in_ball], lr=0.1, momentum=0.9), lambda: ball.dist(in_ball, y).sum()),
    frame=steps(geoopt.optim.RiemannianAdam([frame], lr=0.01), lambda: (frame * waves(4, 3)).sum()),
    orthogonal=frame.T @ frame,
    maps=[ball.dist(x, y), ball.expmap(x, y), ball.logmap(x, y), ball.mobius_add(x, y), ball.expmap0(y)],
    kind=type(on_sphere).__name__,
)
