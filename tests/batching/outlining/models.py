"""One recursion over trees in many styles: each records one call for a leaf, and one for a node."""

from __future__ import annotations

from typing import Any

import extempo as ex
from extempo import nn
from extempo.nn import functional as F

N = 4
ex.manual_seed(0)
W = nn.Parameter(ex.randn(10, N))
U = nn.Parameter(ex.randn(N, 2 * N) * 0.3)
B = nn.Parameter(ex.randn(N))
PARAMETERS = [W, U, B]


def leaves_of(tree: Any) -> list[int]:
    return [tree] if isinstance(tree, int) else [*leaves_of(tree[0]), *leaves_of(tree[1])]


def as_it_is(tree: Any) -> Any:
    return tree


def plain(tree: Any) -> Any:
    if isinstance(tree, int):
        return ex.tanh(W[tree] + B) * 2
    x = ex.cat([plain(tree[0]), plain(tree[1])])
    g = ex.sigmoid(F.linear(x, U))
    return g * ex.tanh(F.linear(x, U, B)) + (1 - g) * B


def tuples_visit(tree):
    if isinstance(tree, int):
        return ex.tanh(W[tree] + B) * 2
    a, b = tuples_visit(tree[0]), tuples_visit(tree[1])
    x = ex.cat([a, b])
    g = ex.sigmoid(F.linear(x, U))
    return g * ex.tanh(F.linear(x, U, B)) + (1 - g) * B


LINES_OF_TUPLES = (1, 2, 3, 4, 5, 6)


def tuples():
    return tuples_visit, as_it_is


def weights_as_arguments():
    def visit(tree, w, u, b):
        if isinstance(tree, int):
            return ex.tanh(w[tree] + b) * 2
        x = ex.cat([visit(tree[0], w, u, b), visit(tree[1], w, u, b)])
        g = ex.sigmoid(F.linear(x, u))
        return g * ex.tanh(F.linear(x, u, b)) + (1 - g) * b

    return lambda tree: visit(tree, W, U, B), as_it_is


def closures():
    w, u, b = PARAMETERS

    def leaf(n):
        return ex.tanh(w[n] + b) * 2

    def node(left, right):
        x = ex.cat([left, right])
        g = ex.sigmoid(F.linear(x, u))
        return g * ex.tanh(F.linear(x, u, b)) + (1 - g) * b

    def visit(tree):
        return leaf(tree) if isinstance(tree, int) else node(visit(tree[0]), visit(tree[1]))

    return visit, as_it_is


def nested_functions():
    def model(tree):
        def combine(a, b):
            x = ex.cat([a, b])
            g = ex.sigmoid(F.linear(x, U))
            return g * ex.tanh(F.linear(x, U, B)) + (1 - g) * B

        def visit(tree):
            if isinstance(tree, int):
                return ex.tanh(W[tree] + B) * 2
            return combine(*[visit(child) for child in tree])

        return visit(tree)

    return model, as_it_is


class Node:
    def __init__(self, tree):
        self.word = tree if isinstance(tree, int) else None
        self.children = [] if isinstance(tree, int) else [type(self)(child) for child in tree]


class Visitor:
    def __init__(self):
        self.w, self.u, self.b = PARAMETERS

    def leaf(self, node):
        return ex.tanh(self.w[node.word] + self.b) * 2

    def combine(self, a, b):
        x = ex.cat([a, b])
        g = ex.sigmoid(F.linear(x, self.u))
        return g * ex.tanh(F.linear(x, self.u, self.b)) + (1 - g) * self.b

    def visit(self, node):
        if not node.children:
            return self.leaf(node)
        left, right = node.children
        return self.combine(self.visit(left), self.visit(right))


def methods_of_a_plain_class():
    return Visitor().visit, Node


class StateNode(Node):
    def state(self):
        if self.word is not None:
            return ex.tanh(W[self.word] + B) * 2
        a, b = [child.state() for child in self.children]
        x = ex.cat([a, b])
        g = ex.sigmoid(F.linear(x, U))
        return g * ex.tanh(F.linear(x, U, B)) + (1 - g) * B


def methods_of_nodes():
    return lambda node: node.state(), StateNode


class Recursive(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.u, self.b = PARAMETERS

    def forward(self, node):
        if "word" in node:
            return ex.tanh(self.w[node["word"]] + self.b) * 2
        a, b = (self(child) for child in node["children"])
        x = ex.cat([a, b])
        g = ex.sigmoid(F.linear(x, self.u))
        return g * ex.tanh(F.linear(x, self.u, self.b)) + (1 - g) * self.b


def a_module_that_calls_itself():
    return Recursive(), as_dict


def as_dict(tree):
    return {"word": tree} if isinstance(tree, int) else {"children": [as_dict(child) for child in tree]}


def postfix(tree):
    return [tree] if isinstance(tree, int) else [*postfix(tree[0]), *postfix(tree[1]), None]


def a_stack():
    def model(program):
        stack = []
        for word in program:
            if word is not None:
                stack.append(ex.tanh(W[word] + B) * 2)
                continue
            right, left = stack.pop(), stack.pop()
            x = ex.cat([left, right])
            g = ex.sigmoid(F.linear(x, U))
            stack.append(g * ex.tanh(F.linear(x, U, B)) + (1 - g) * B)
        return stack[-1]

    return model, postfix


def mutual(tree):
    return mutual_leaf(tree) if isinstance(tree, int) else mutual_node(tree)


def mutual_leaf(word):
    return ex.tanh(W[word] + B) * 2


def mutual_node(tree):
    a = mutual(tree[0])
    b = mutual(tree[1])
    x = ex.cat([a, b])
    g = ex.sigmoid(F.linear(x, U))
    return g * ex.tanh(F.linear(x, U, B)) + (1 - g) * B


def functions_that_call_each_other():
    return lambda tree: mutual(tree), as_it_is


STYLES = [
    tuples,
    weights_as_arguments,
    closures,
    nested_functions,
    methods_of_a_plain_class,
    methods_of_nodes,
    a_module_that_calls_itself,
    a_stack,
    functions_that_call_each_other,
]


def fails(tree, ok):
    if isinstance(tree, int):
        return ex.tanh(W[tree] + B) * 2
    a, b = fails(tree[0], ok), fails(tree[1], ok)
    h = ex.tanh(a) * b
    if not ok:
        x = h + ex.zeros(5)
        return ex.sigmoid(x) * 2
    return ex.sigmoid(h) * 2


def may_not_set(tree, missing):
    if isinstance(tree, int):
        return ex.tanh(W[tree] + B) * 2
    a = may_not_set(tree[0], missing)
    if not missing:
        b = may_not_set(tree[1], missing)
    x = ex.tanh(a) + 1
    y = ex.sigmoid(x) * b
    return y + x


class WithDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(N, N)
        self.drop = nn.Dropout(0.5)

    def visit(self, tree):
        if isinstance(tree, int):
            return W[tree]
        a, b = self.visit(tree[0]), self.visit(tree[1])
        return ex.tanh(self.drop(self.linear(a))) * ex.sigmoid(b)

    def forward(self, tree):
        return self.visit(tree)
