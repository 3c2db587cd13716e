"""A planned backward in native code: the plan runs, tensors get values and freed nodes, leaves their gradients.

What `tracing.backward` does, and the engine with what it returns, where the same backward was met before and has a
plan.
As in `segment`, all that can fail or run someone else's code comes first.
"""

from __future__ import annotations

from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i32, i64, ptr
from .cpython import C_CONTIGUOUS, LARGEST
from .segment import FlushCode


class _BackwardCode(FlushCode):
    def __init__(self, b: IRFunction, offsets: dict[str, int]) -> None:
        super().__init__(b, offsets, "none", ("key", "alive", "freed_nodes", "gradients", "tensors", "rest"))
        self.place, self.gradient = (Pointer(b.arg("args"), ptr)[i] for i in (1, 2))

    def node_slot(self, node: Value, name: str) -> Value:
        return self.o.get(node, f"node.{name}")

    def compare_nodes(self) -> None:
        """Nobody looks at gradients on the way, and no node was linked while this was traced."""
        b, o, python = self.b, self.o, self.python
        n_first = self.length(o.get(self.at(self.own("makers"), b.const(i64, 0)), "step.new_leaves"))
        nodes = self.own("nodes")
        with b.loop(0, self.size(nodes)) as k:
            node = self.at(nodes, k)
            with b.if_(python.type_of(node) == o.known("node")):
                extra = self.node_slot(node, "extra")
                with b.if_(extra != o.known("none")):
                    self._unless_empty(o.get(extra, "extra.hooks"))
                    self.unless(o.get(extra, "extra.retain") == o.known("false"))
                self.unless((k < n_first) | (self.node_slot(node, "op") == o.known("leaf")))

    def _unless_empty(self, hooks: Value) -> None:
        with self.b.if_(hooks != self.o.known("none")):
            self.unless(self.call("PyDict_Size", hooks, returns=i64) == 0)

    def find_backward(self) -> None:
        key = self.hold("key", self.python.new_tuple(2))
        for i, part in enumerate((self.place, self.owned["live"].value)):
            self.python.set_item(key, i, self.python.incref(part))
        self.find(key)

    def mark_alive(self) -> None:
        """What ran before and is still live: a list of value ids. All of it must be freed by this backward."""
        b, o, python = self.b, self.o, self.python
        found, before = self.owned["found"].value, self.own("alive")
        self.unless(o.get(found, "flush.frees_all") == o.known("true"))
        alive = self.hold("alive", self.call("PyList_New", 0))
        with b.loop(0, self.size(before)) as i:
            place = self.at(before, i)
            number = python.as_int(place)
            t = self.at(self.own("results"), number)
            with b.if_((t != o.known("none")) & (self.references(t) > 1)):
                step_place = o.get(self.at(self.own("makers"), number), "step.place")
                freed = self.call("PySet_Contains", o.get(found, "flush.freed"), step_place, returns=i32)
                self.unless(freed == 1)
                self._try(self.call("PyList_Append", alive, place, returns=i32))
        self._try(self.call("PyList_SetSlice", alive, LARGEST, LARGEST, self.of_binding("alive"), returns=i32))

    def _try(self, status: Value) -> None:
        self.failed.take_if(status != 0)

    def make_nodes(self) -> None:
        """For each tensor whose saved values the backward has freed, the node that says so."""
        b, python = self.b, self.python
        nodes = self.hold("freed_nodes", python.new_tuple(self.n_bound))
        with b.loop(0, self.n_bound) as k, b.if_(self.entry(k)["freed"] != 0):
            step = python.item(self.of_binding("steps"), k)
            python.set_item(nodes, k, self.check(b.call(b.module.defined["extempo_freed_node"], step)))

    def make_gradients(self) -> None:
        """Tensors for the leaves that have no gradient yet; none where a gradient goes on from here."""
        b, o, python = self.b, self.o, self.python
        indices = self.share("gradients", o.get(self.owned["plan"].value, "plan.gradients"))
        self.n_gradients = self.length(indices)
        wanted = o.get(self.owned["found"].value, "flush.wanted")
        self.n_wanted = self.length(wanted)
        self.unless(self.size(self.owned["out"].value) == self.n_wanted + self.n_gradients)
        self.hold("rest", self.call("PyList_New", 0))
        tensors = self.hold("tensors", python.new_tuple(self.n_gradients))
        all_end_here = b.var(i1, 1)
        with b.loop(0, self.n_gradients) as i:
            ends = self.node_slot(self._leaf_node(i), "op") == o.known("leaf")
            all_end_here.set(all_end_here.value & ends)
        with b.if_(all_end_here.value), b.loop(0, self.n_gradients) as i:
            node = self._leaf_node(i)
            with b.if_(self._takes_gradient(node, i)):
                type_, array = self.node_slot(node, "type"), self._array(i)
                python.set_item(tensors, i, self.check(b.call(b.module.defined["extempo_wrap"], array, type_)))

    def _leaf_node(self, i: Value) -> Value:
        index = self.python.as_int(self.python.item(self.owned["gradients"].value, i))
        node = self.at(self.own("nodes"), index)
        self.unless(self.python.type_of(node) == self.o.known("node"))
        return node

    def _array(self, i: Value) -> Value:
        return self.call("PyList_GetItem", self.owned["out"].value, self.n_wanted + i)

    def _takes_gradient(self, node: Value, i: Value) -> Value:
        """Whether the gradient of a leaf is simply this one: the first, and both lie in order."""
        b, o = self.b, self.o
        extra, none, simple = self.node_slot(node, "extra"), o.known("none"), b.var(i1, 0)
        with b.if_(extra != none):
            in_order = (self.python.flags(self._array(i)) & C_CONTIGUOUS) != 0
            in_order &= self.call("PyDict_Size", self.node_slot(node, "attrs"), returns=i64) == 0
            is_first = (o.get(extra, "extra.grad") == none) & (o.get(extra, "extra.post_hooks") == none)
            simple.set(is_first & in_order)
        return simple.value

    def filled(self, k: Value, t: Value) -> None:
        o, python = self.o, self.python
        node = python.item(self.owned["freed_nodes"].value, k)
        with self.b.if_(node != 0):
            with self.b.if_(o.get(t, "tensor._history") == self.own("proxy")):
                o.replace(t, "tensor._history", python.incref(node))
            o.replace(t, "tensor._source", python.incref(o.known("none")))

    def give_gradients(self) -> None:
        """To leaves that have none; the engine does the rest, also where two leaves share one."""
        b, o, python = self.b, self.o, self.python
        with b.loop(0, self.n_gradients) as i:
            node, t = self._leaf_node(i), python.item(self.owned["tensors"].value, i)
            given = b.var(i1, 0)
            with b.if_(t != 0):
                given.set(self._takes_gradient(node, i))
            simply, later = b.if_else(given.value)
            with simply:
                o.replace(self.node_slot(node, "extra"), "extra.grad", python.incref(t))
            with later:
                pair = self.check(python.new_tuple(2))
                for k, part in enumerate((node, self._array(i))):
                    python.set_item(pair, k, python.incref(part))
                failed = self.call("PyList_Append", self.owned["rest"].value, pair, returns=i32)
                python.decref(pair)
                self._try(failed)


def write_backward(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_backward(executor, value id of the root, gradient): [(node, gradient)] for the engine to go on with.

    None: nothing has happened. Otherwise the trace has ended, but for what `alive` names: that still has to be linked.

    Mirrors `tracing.backward.backward_by_plan`.
    """
    with module.function("extempo_backward", ptr, self=ptr, args=ptr, nargs=i64) as b:
        code = _BackwardCode(b, offsets)
        o, python, owned = code.o, code.python, code.owned
        code.begin()
        code.compare_nodes()
        code.mark_live()
        code.find_backward()
        code.mark_alive()
        code.run(code.gradient)
        code.make_parts()
        code.make_nodes()
        code.make_gradients()
        code.count()
        code.unchanged()
        code.fill()
        code.go_on()
        o.replace(owned["trace"].value, "trace.alive", python.incref(owned["alive"].value))
        code.give_gradients()
        code.leave(python.incref(owned["rest"].value))
