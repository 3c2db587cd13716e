"""Collectives: of one process here, of three in one program."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import distributed as dist
from extempo.errors import ArgumentError, DistributedError, DtypeError, ShapeError, UnsupportedError


@pytest.mark.usefixtures("alone")
def test_in_one_process_everything_is_where_it_belongs():
    x = ex.arange(3.0)
    assert dist.all_reduce(x) is None
    assert dist.all_reduce(x, async_op=True).wait()
    assert dist.all_reduce(x, op=dist.ReduceOp.AVG) is None
    dist.broadcast(x, src=0)
    dist.reduce(x, dst=0)
    dist.barrier()
    dist.barrier(async_op=True).wait()
    dist.monitored_barrier()
    assert x.tolist() == [0.0, 1.0, 2.0]
    found, out = [ex.zeros(3)], ex.zeros(3)
    dist.all_gather(found, x)
    dist.scatter(out, [x])
    assert found[0].tolist() == out.tolist() == x.tolist()
    dist.gather(2 * x, found)
    dist.reduce_scatter(out, [3 * x])
    assert (found[0].tolist(), out.tolist()) == ([0, 2, 4], [0, 3, 6])
    dist.all_gather_into_tensor(out, x)
    dist.all_to_all(found, [out])
    assert found[0].tolist() == x.tolist()
    dist.reduce_scatter_tensor(out, 2 * x)
    dist.all_to_all_single(out, x)
    dist.all_reduce_coalesced([out])
    assert out.tolist() == x.tolist()


@pytest.mark.usefixtures("alone")
def test_what_cannot_be_carried_is_refused_with_the_reason():
    x = ex.arange(3)
    with pytest.raises(DtypeError, match="mean of integers"):
        dist.all_reduce(x, dist.ReduceOp.AVG)
    with pytest.raises(DtypeError, match="for integers"):
        dist.all_reduce(x.float(), dist.ReduceOp.BOR)
    with pytest.raises(DtypeError, match="expected a tensor"):
        dist.all_reduce([1.0])
    with pytest.raises(ArgumentError, match="each of 1 ranks"):
        dist.all_gather([x, x], x)
    with pytest.raises(ShapeError, match="needs 3 values"):
        dist.all_gather([ex.zeros(2)], x)
    with pytest.raises(ArgumentError, match="ReduceOp"):
        dist.all_reduce(x, "sum")
    with pytest.raises(ArgumentError, match="rank 5 is not in the group"):
        dist.broadcast(x, src=5)
    with pytest.raises(UnsupportedError, match=r"ex\.batch, vmap"):
        ex.vmap(lambda y: dist.all_reduce(y) or y)(x.float())


def test_a_group_is_needed_first():
    with pytest.raises(DistributedError, match="init_process_group"):
        dist.all_reduce(ex.ones(1))


EVERYTHING = """
    import extempo as ex
    from extempo import distributed as dist
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    own = ex.arange(3.0) + 10 * rank

    def shown(*tensors):
        return [t.tolist() for t in tensors]

    x = own.clone(); dist.all_reduce(x); print(shown(x))
    x = own.clone(); dist.all_reduce(x, dist.ReduceOp.AVG); print(shown(x))
    x = own.clone(); dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True).wait(); print(shown(x))
    x = ex.zeros(3, 2); x[:, 1] = own; dist.all_reduce(x[:, 1]); print(shown(x[:, 1]))
    x = own.to(ex.bfloat16); dist.all_reduce(x); print(shown(x))
    x = ex.tensor([rank == 1, False]); dist.all_reduce(x); print(shown(x))
    x = own.clone(); dist.broadcast(x, 2); print(shown(x))
    x = own.clone(); dist.reduce(x, 1); print(shown(x))
    found = [ex.zeros(3) for _ in range(size)]; dist.all_gather(found, own); print(shown(*found))
    flat = ex.zeros(9); dist.all_gather_into_tensor(flat, own); print(shown(flat))
    dist.gather(own + 1, found if rank == 2 else None, dst=2); print(shown(*found))
    parts = [own + i for i in range(size)]
    out = ex.zeros(3); dist.scatter(out, parts if rank == 1 else None, src=1); print(shown(out))
    dist.reduce_scatter(out, [own + i for i in range(size)]); print(shown(out))
    out = ex.zeros(1); dist.reduce_scatter_tensor(out, own); print(shown(out))
    dist.all_to_all(found, [own + i for i in range(size)]); print(shown(*found))
    objects = [None] * size; dist.all_gather_object(objects, {"rank": rank}); print(objects)
    objects = [rank, "x"]; dist.broadcast_object_list(objects, 1); print(objects)
    some = dist.new_group([0, 2])
    print(some is dist.GroupMember.NON_GROUP_MEMBER, dist.get_rank(some))
    if rank != 1:
        x = own.clone(); dist.all_reduce(x, group=some); print(shown(x))
    if rank == 0:
        dist.send(own, 2); dist.isend(own + 1, 2, tag=4).wait()
    if rank == 2:
        late = ex.zeros(3); work = dist.irecv(late, 0, tag=4)
        x = ex.zeros(3); print(dist.recv(x), shown(x)); work.wait(); print(shown(late))
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.slow
def test_three_ranks_have_what_pytorch_says_they_have(run_ranks):
    status, printed, errors = run_ranks(EVERYTHING, 3)
    assert status == 0, errors
    own = [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0], [20.0, 21.0, 22.0]]
    for rank, lines in enumerate(printed):
        expected = [
            [[30.0, 33.0, 36.0]],
            [[10.0, 11.0, 12.0]],
            [own[2]],
            [[30.0, 33.0, 36.0]],
            [[30.0, 33.0, 36.0]],
            [[True, False]],
            [own[2]],
            [[30.0, 33.0, 36.0]] if rank == 1 else [own[rank]],
            own,
            [[*own[0], *own[1], *own[2]]],
            [[v + 1 for v in part] for part in own] if rank == 2 else own,
            [[v + rank for v in own[1]]],
            [[v + 3 * rank for v in (30.0, 33.0, 36.0)]],
            [[(30.0, 33.0, 36.0)[rank]]],
            [[v + rank for v in part] for part in own],
            [{"rank": 0}, {"rank": 1}, {"rank": 2}],
            [1, "x"],
        ]
        assert lines[: len(expected)] == [str(line) for line in expected]
        rest = lines[len(expected) :]
        sum_of_two = str([[20.0, 22.0, 24.0]])
        assert (
            rest
            == [
                ["False 0", sum_of_two],
                ["True -1"],
                ["False 1", sum_of_two, f"0 {[own[0]]}", str([[1.0, 2.0, 3.0]])],
            ][rank]
        )
