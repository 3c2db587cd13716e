"""`python -m extempo.run script.py [args]`: a PyTorch program run by Extempo, unmodified; also `extempo run`."""

from __future__ import annotations

import sys

from .compat.torch_namespace.running import run_script

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m extempo.run [--report] script.py [args]")
    report = sys.argv[1] == "--report"
    script, *args = sys.argv[1 + report :] or [""]
    sys.exit(run_script(script, args, report))
