"""Run every program with PyTorch 2.13, and store what it shows: python tests/programs/make_expected.py."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    for program in sorted(HERE.glob("with_*.py")):
        done = subprocess.run([sys.executable, program.name], cwd=HERE, capture_output=True, text=True, check=True)
        (HERE / "expected" / f"{program.stem}.json").write_text(done.stdout.splitlines()[-1] + "\n")
        print(program.name)
