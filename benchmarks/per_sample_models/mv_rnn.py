"""MV-RNN (Socher et al. 2012): every node of a tree has a vector and a matrix, which acts on its sibling's vector."""

from __future__ import annotations

from typing import Any

from .row import N_CLASSES, N_WORDS, Loss, Row
from .trees import collate, draw

N_DIM = 24


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class MatrixVectorNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vector = nn.Embedding(N_WORDS, N_DIM)
            self.matrix = nn.Embedding(N_WORDS, N_DIM * N_DIM)
            self.compose = nn.Linear(2 * N_DIM, N_DIM)
            self.merge = nn.Parameter(lib.zeros(N_DIM, 2 * N_DIM))
            self.out = nn.Linear(N_DIM, N_CLASSES)

        def leaves(self, words: Any) -> tuple[Any, Any]:
            return self.vector(words), lib.eye(N_DIM) + 0.1 * self.matrix(words).reshape(-1, N_DIM, N_DIM)

        def node(self, tree: Any, vectors: Any, matrices: Any) -> tuple[Any, Any]:
            if isinstance(tree, int):
                return vectors[tree], matrices[tree]
            a, a_matrix = self.node(tree[0], vectors, matrices)
            b, b_matrix = self.node(tree[1], vectors, matrices)
            vector = lib.tanh(self.compose(lib.cat([b_matrix @ a, a_matrix @ b])))
            return vector, self.merge @ lib.cat([a_matrix, b_matrix])

        def forward(self, words: Any, tree: Any, label: Any) -> Any:
            vector, _ = self.node(tree, *self.leaves(words))
            return F.cross_entropy(self.out(vector), label)

    return MatrixVectorNetwork()


def by_hand(lib: Any, model: Any) -> Loss:
    """All nodes of one height at once."""

    def loss_of(words: Any, levels: Any, roots: Any, labels: Any) -> Any:
        vectors, matrices = model.leaves(words)
        for left, right in levels:
            a, b, a_matrix, b_matrix = vectors[left], vectors[right], matrices[left], matrices[right]
            acted = [lib.bmm(m, v[:, :, None])[:, :, 0] for m, v in ((b_matrix, a), (a_matrix, b))]
            vectors = lib.cat([vectors, lib.tanh(model.compose(lib.cat(acted, 1)))])
            matrices = lib.cat([matrices, model.merge @ lib.cat([a_matrix, b_matrix], 1)])
        return lib.nn.functional.cross_entropy(model.out(vectors[roots]), labels)

    return loss_of


ROWS = [Row("mv_rnn", __doc__, model, draw, (5, 25), by_hand, collate)]
