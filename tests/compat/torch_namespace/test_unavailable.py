"""torch.distributed.rpc: asked whether it is there, it says no."""

import subprocess
import sys

from extempo.compat.torch_namespace import unavailable


def test_programs_that_ask_go_on_without_it():
    program = "import extempo.as_torch; import torch.distributed.rpc as rpc; print(rpc.is_available())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_functions_that_would_need_it_can_be_declared():
    assert unavailable._require_initialized(len) is len
