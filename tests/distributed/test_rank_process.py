"""What a rank finds in its environment."""

from __future__ import annotations

import os

import pytest

from extempo.distributed import rank_process


def test_torchruns_variables_come_from_the_launchers(monkeypatch, tmp_path, capsys):
    for name in (*rank_process._VARIABLES, "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setattr(rank_process, "die_with_parent", lambda: None)
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    program = tmp_path / "program.py"
    program.write_text("import os, sys; print(os.environ['RANK'], os.environ['WORLD_SIZE'], sys.argv[1:])")
    assert rank_process.main([str(program), "--lr", "3"]) == 0
    assert capsys.readouterr().out == "3 4 ['--lr', '3']\n"
    assert os.environ["MASTER_ADDR"] == "127.0.0.1"


TORCH = """
    import os, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    model = DDP(torch.nn.Linear(2, 1))
    model(torch.ones(1, 2) * (dist.get_rank() + 1)).sum().backward()
    print(model.module.weight.grad.tolist())
    dist.destroy_process_group()
"""


@pytest.mark.slow
def test_a_program_written_for_torchrun_runs_as_it_is(run_ranks):
    status, printed, errors = run_ranks(TORCH, 2, "--torch")
    assert status == 0, errors
    assert printed == [["[[1.5, 1.5]]"]] * 2
