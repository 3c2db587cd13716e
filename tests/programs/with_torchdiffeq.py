"""A neural differential equation, differentiated through the solver and by the adjoint."""

import torch
from fixed import fill, show
from torchdiffeq import odeint, odeint_adjoint


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def forward(self, t, y):
        return self.net(y**3)


field = Field()
fill(field)
found = {}
for solve in (odeint, odeint_adjoint):
    for method, options in (("dopri5", {}), ("rk4", {"options": {"step_size": 0.05}})):
        field.zero_grad()
        start = torch.tensor([[2.0, 0.0]], requires_grad=True)
        path = solve(field, start, torch.linspace(0.0, 1.0, 5), method=method, **options)
        path.square().sum().backward()
        gradients = [parameter.grad for parameter in field.parameters()]
        found[f"{solve.__name__} {method}"] = [path, start.grad, gradients]
show(**found)
