"""Attributions of a network's scores to its inputs and layers."""

from captum import attr
from fixed import fill, show, waves
from torch import nn

net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
fill(net)
net.eval()
x = waves(2, 4).requires_grad_()
methods = [attr.IntegratedGradients, attr.Saliency, attr.DeepLift, attr.InputXGradient, attr.FeatureAblation]
show(
    inputs={method.__name__: method(net).attribute(x, target=1) for method in [*methods, attr.GuidedBackprop]},
    windows=attr.Occlusion(net).attribute(x, target=1, sliding_window_shapes=(2,)),
    layers=[attr.LayerConductance(net, net[0]).attribute(x, target=1), attr.LayerActivation(net, net[0]).attribute(x)],
)
