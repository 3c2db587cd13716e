"""A classifier in scikit-learn's manner: callbacks, cross-validation, saved and loaded parameters, pickles."""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import torch
from fixed import fill, show
from sklearn.model_selection import cross_val_score
from skorch import NeuralNetClassifier
from skorch.callbacks import EarlyStopping, LRScheduler

inputs = np.sin(np.arange(200 * 8, dtype=np.float32).reshape(200, 8) * 1.3)
labels = (inputs[:, 0] + inputs[:, 3] > 0).astype(np.int64)


class Net(torch.nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(8, width), torch.nn.Linear(width, 2)
        fill(self)

    def forward(self, x):
        return torch.softmax(self.out(torch.relu(self.hidden(x))), -1)


net = NeuralNetClassifier(
    Net,
    max_epochs=8,
    batch_size=20,
    iterator_train__shuffle=False,
    verbose=0,
    optimizer=torch.optim.Adam,
    optimizer__lr=0.01,
    callbacks=[EarlyStopping(patience=20), LRScheduler(policy="StepLR", step_size=3)],
)
net.fit(inputs, labels)
scores = cross_val_score(net, inputs, labels, cv=3, scoring="accuracy")
with tempfile.TemporaryDirectory() as folder:
    net.save_params(f_params=Path(folder) / "net.pt")
    again = NeuralNetClassifier(Net)
    again.initialize()
    again.load_params(f_params=Path(folder) / "net.pt")
unpickled = pickle.loads(pickle.dumps(net))
show(
    losses=net.history[:, "train_loss"],
    accuracies=net.history[:, "valid_acc"],
    scores=scores.tolist(),
    probabilities=net.predict_proba(inputs[:5]).tolist(),
    same=[bool((other.predict(inputs) == net.predict(inputs)).all()) for other in (again, unpickled)],
)
