"""Regression by a Gaussian process: marginal likelihood, its gradients, predictions; and a variational one."""

import gpytorch
import torch
from fixed import show, waves

x = torch.linspace(0, 1, 20)
y = torch.sin(x * 6.28) + 0.1 * waves(20)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        kernels = gpytorch.kernels.RBFKernel() + gpytorch.kernels.MaternKernel(nu=2.5)
        self.covar_module = gpytorch.kernels.ScaleKernel(kernels)

    def forward(self, points):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(points), self.covar_module(points))


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, inducing):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(inducing.size(0))
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, distribution))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, points):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(points), self.covar_module(points))


def train(model, likelihood, objective):
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam([*model.parameters()], lr=0.1)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        predicted = likelihood(model(torch.linspace(0, 1.2, 6)))
    return [losses, predicted.mean, predicted.variance]


likelihood = gpytorch.likelihoods.GaussianLikelihood()
exact = Exact(likelihood)
found = {"exact": train(exact, likelihood, gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, exact))}
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Variational(torch.linspace(0, 1, 5)[:, None])
with torch.no_grad():  # which else starts with noise at the first call
    model.variational_strategy.variational_params_initialized.fill_(1)
found["variational"] = train(model, likelihood, gpytorch.mlls.VariationalELBO(likelihood, model, num_data=20))
show(**found)
