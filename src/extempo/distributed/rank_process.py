"""What `extempo launch` runs in each rank: torchrun's environment variables, then the user's program.

python -m extempo.distributed.rank_process [--torch] train.py [args]
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from .leaving import die_with_parent

# torchrun's names, and Open MPI's for the same.
_VARIABLES = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
    "GROUP_RANK": "OMPI_COMM_WORLD_NODE_RANK",
}


def set_variables() -> None:
    """torchrun's variables from the launcher's. MASTER_ADDR and MASTER_PORT are there for programs that read them."""
    for name, source in _VARIABLES.items():
        if source in os.environ:
            os.environ[name] = os.environ[source]
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")


def main(arguments: list[str]) -> int:
    """Run the program; its exit status."""
    die_with_parent()
    set_variables()
    is_torch = arguments[0] == "--torch"
    script, *args = arguments[is_torch:]
    if is_torch:
        from ..compat.torch_namespace.running import run_script

        return run_script(script, args)
    sys.argv = [script, *args]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
