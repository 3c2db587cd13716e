"""A training loop of events, with metrics."""

import torch
from fixed import fill, show, waves
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss

cross_entropy = torch.nn.functional.cross_entropy
model = torch.nn.Linear(4, 3)
fill(model)
trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), cross_entropy)
evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy(), "loss": Loss(cross_entropy)})
batches = [(waves(6, 4, step=i + 0.1), torch.arange(6) % 3) for i in range(3)]
found = []


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(batches)
    found.append([engine.state.output, evaluator.state.metrics])


trainer.run(batches, max_epochs=3)
show(found=found)
