"""Ranks of two "hosts": network namespaces of their own, with a cable between them that can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time

import pytest

from extempo.distributed import launcher

PROGRAM = """
    import hashlib, sys, time
    import extempo as ex
    from extempo import nn, optim, distributed as dist
    from extempo.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group()
    ex.manual_seed(0)
    net = nn.Linear(50, 50)
    model = DDP(net)
    sgd = optim.SGD(model.parameters(), lr=0.01)
    print("begun", flush=True)
    for i in range(300):
        sgd.zero_grad()
        model(ex.ones(2, 50) * (i % 7 + dist.get_rank())).square().mean().backward()
        sgd.step()
        time.sleep(0.005)
    print("bits", hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest())
"""


def ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=30)


@pytest.fixture
def hosts(tmp_path):
    """Two namespaces with 10.77.0.1 and 10.77.0.2, and what starts processes in the second one."""
    if sys.platform != "linux" or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces need Linux, iproute2 and unshare")
    first, second = (f"ex{os.getpid()}{letter}" for letter in "ab")
    made = ip("netns", "add", first)
    if made.returncode:
        pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")
    ip("netns", "add", second)
    try:
        made = ip("link", "add", "cable", "netns", first, "type", "veth", "peer", "name", "cable", "netns", second)
        if made.returncode:
            pytest.skip(f"no cable between namespaces can be made here: {made.stderr.strip()}")
        for name, number in ((first, 1), (second, 2)):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
            ip("-n", name, "link", "set", "lo", "up")
        agent, folder = tmp_path / "agent", tmp_path / "second"
        folder.mkdir()
        agent.write_text(
            '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\n'
            f'exec ip netns exec {second} env TMPDIR={folder} unshare -u sh -c "hostname second; $*"\n'
        )
        agent.chmod(0o755)
        yield first, str(agent)
    finally:
        ip("netns", "del", first)
        ip("netns", "del", second)


@pytest.mark.alone
@pytest.mark.usefixtures("start_ranks")
def test_training_waits_for_a_host_that_is_cut_off_for_a_while_and_has_the_same_bits(hosts, tmp_path):
    first, agent = hosts
    launcher.find_mpirun()
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    command = ["ip", "netns", "exec", first, sys.executable, "-m", "extempo", "launch", "-n", "2"]
    command += ["--hosts", "10.77.0.1:1,10.77.0.2:1", str(path)]
    environment = {**os.environ, "PRTE_MCA_plm_ssh_agent": agent}
    found = []
    for seconds in (0, 5):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "begun" in process.stdout.readline()
        if seconds:  # frames go to nobody
            nobody = ["lladdr", "02:00:00:00:00:99", "dev", "cable", "nud", "permanent"]
            assert ip("-n", first, "neigh", "replace", "10.77.0.2", *nobody).returncode == 0
            time.sleep(seconds)
            ip("-n", first, "neigh", "del", "10.77.0.2", "dev", "cable")
        try:
            out, err = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate(timeout=30)
        bits = {line.split()[-1] for line in out.splitlines() if "bits" in line}
        assert (process.returncode, len(bits)) == (0, 1), err
        found.append(bits)
    assert found[0] == found[1]
