"""The kernel of a cluster by its operands' layouts, and clusters of which only some results are needed."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32, float64
from extempo.scheduling.fusion import Cluster, ScheduleUnits
from extempo.scheduling.kernel_selection import fit, operand_dtypes, reduced
from extempo.scheduling.lowering import lowered_op
from extempo.scheduling.program import PlanProgram

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

T = TensorType((4, 6), float32)


def cluster_of(write, outputs=None):
    """The one cluster of a program of two inputs."""
    program = PlanProgram()
    a, b = program.input(-1, T, None), program.input(-2, T, None)

    def op(name, *codes):
        kinds = tuple(program.types[code] for code in codes)
        return program.apply(lowered_op(REGISTRY[name], kinds, {}), codes, 0)[0]

    made = write(op, a, b)
    units = ScheduleUnits(program, program.nodes, made)
    (cluster,) = units.units
    assert type(cluster) is Cluster
    return cluster, made


def test_what_is_left_for_some_results_is_what_they_are_made_of():
    cluster, (first, second) = cluster_of(lambda op, a, b: [op("tanh", op("mul", a, b)), op("exp", op("add", a, a))])
    assert len(list(cluster.nodes())) == 4
    part = reduced(cluster, [cluster.results.index(second)])
    assert part.writes == [second]
    assert [expression.inputs for expression, _ in part.nodes()] == [(float32, float32), (float32,)]
    assert part.operands == [cluster.operands[0]]  # b is read for the other result only
    assert first not in part.results


def test_the_dtypes_of_operands_are_those_that_nodes_read():
    expression = lowered_op(REGISTRY["add"], (TensorType((2,), float64),) * 2, {}).expression
    assert operand_dtypes(((expression, (1, 0)),), 2) == (float64, float64)


def test_kernels_differ_by_how_operands_lie_and_not_by_sizes():
    cluster, _ = cluster_of(lambda op, a, b: [op("mul", a, b)])
    nodes, stored = tuple(cluster.nodes()), tuple(cluster.stored)
    in_order, spread = (24, 4), (0, 4)
    plain = fit(nodes, stored, (4, 6), (in_order, in_order, in_order))
    larger = fit(nodes, stored, (40, 60), ((240, 4), (240, 4), (240, 4)))
    assert plain.kernel == larger.kernel
    column = fit(nodes, stored, (4, 6), (in_order, (4, 0), in_order))
    assert column.kernel != plain.kernel
    assert fit(nodes, stored, (4, 6), (in_order, spread, in_order)).kernel == plain.kernel  # rows are alike


def test_results_that_do_not_lie_side_by_side_are_rows_of_one_element():
    cluster, _ = cluster_of(lambda op, a, b: [op("mul", a, b)])
    nodes, stored = tuple(cluster.nodes()), tuple(cluster.stored)
    columns = fit(nodes, stored, (4, 6), ((24, 4), (24, 4), (48, 8)))
    assert columns.shape == (4, 6, 1)
    assert all(len(strides) == 3 for strides in columns.strides)
