"""torch.distributed.rpc: asked whether it is there, it says no."""

import subprocess
import sys


def test_programs_that_ask_go_on_without_it():
    program = "import extempo.as_torch; import torch.distributed.rpc as rpc; print(rpc.is_available())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
