"""Graph networks: batches of graphs, convolutions, message passing of one's own, pooling, heterogeneous graphs."""

import torch
import torch.nn.functional as F
from fixed import fill, show, waves
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GAE,
    GCN,
    ChebConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    HeteroConv,
    MessagePassing,
    SAGEConv,
    TransformerConv,
    global_mean_pool,
)
from torch_geometric.utils import add_self_loops, degree, scatter, softmax, to_dense_adj, to_dense_batch

edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 4, 0], [1, 0, 2, 1, 3, 2, 4, 3, 0, 4]])
x = waves(5, 6)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = GCNConv(6, 8), GATConv(8, 4, heads=2), SAGEConv(8, 8)
        self.fourth = GINConv(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)))
        self.out = nn.Linear(8, 2)

    def forward(self, x, edges, batch):
        x = F.elu(self.second(F.relu(self.first(x, edges)), edges))
        x = self.fourth(F.relu(self.third(x, edges)), edges)
        return self.out(global_mean_pool(x, batch))


class Largest(MessagePassing):
    def __init__(self):
        super().__init__(aggr="max")
        self.lin = nn.Linear(6, 4)

    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(edge_index, num_nodes=x.size(0))
        row, col = edge_index
        scale = degree(col, x.size(0), dtype=x.dtype).pow(-0.5)
        return self.propagate(edge_index, x=self.lin(x), norm=scale[row] * scale[col])

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


def filled(layer):
    fill(layer)
    return layer


triangle = torch.tensor([[0, 1, 2], [1, 2, 0]])
graphs = [Data(x=waves(3 + i, 6, step=1.0 + i), edge_index=triangle, y=torch.tensor([i % 2])) for i in range(6)]
net = filled(Net())
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
losses = []
for _ in range(2):
    for batch in DataLoader(graphs, batch_size=3):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(batch.x, batch.edge_index, batch.batch), batch.y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
mixed = HeteroData()
mixed["a"].x, mixed["b"].x = waves(3, 4), waves(2, 4)
mixed["a", "to", "b"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 1]])
between = filled(HeteroConv({("a", "to", "b"): SAGEConv((4, 4), 4)}))
coder = filled(GAE(GCN(6, 8, num_layers=2)))
hidden = coder.encode(x, edges)
kinds = [GraphConv(6, 4), TransformerConv(6, 4, heads=2), ChebConv(6, 4, K=2), GATv2Conv(6, 4)]
show(
    losses=losses,
    largest=filled(Largest())(x, edges),
    convolutions=[filled(kind)(x, edges).sum() for kind in kinds],
    mixed=between(mixed.x_dict, mixed.edge_index_dict),
    decoded=coder.decode(hidden, edges),
    undirected=Data(x=x, edge_index=edges).is_undirected(),
    utilities=[
        to_dense_adj(edges),
        softmax(waves(10), edges[0]),
        scatter(x, torch.tensor([0, 0, 1, 1, 2]), reduce="mean"),
        to_dense_batch(x, torch.tensor([0, 0, 1, 1, 1]))[1],
    ],
)
