"""The worked examples of CONTRIBUTING.md are code that runs where the page says that it goes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()


def examples(title: str) -> str:
    """The indented Python of a section."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n(?:\n+(?=    ))?)+", section, re.M)
    return "\n\n".join(re.sub(r"^    ", "", block, flags=re.M) for block in blocks if "python scripts/" not in block)


# Section: the module that its example goes to, and a program that uses what it made.
USES = {
    "Add an operation": (
        "extempo.ops.transcendental",
        """
assert ex.tensor([1.0, 2.0]).logit_gap().item() == 0.5
assert ex.testing.check_op(place.LogCosh) > 3
assert ex.tensor([-800.0, 800.0]).log_cosh_().isfinite().all()
""",
    ),
    "Add a layer": (
        "extempo.nn.activation_layers",
        """
assert repr(place.LeakyReLU(0.5)) == "LeakyReLU(negative_slope=0.5)"
assert place.LeakyReLU(0.5)(ex.tensor([-2.0, 2.0])).tolist() == [-1.0, 2.0]
""",
    ),
    "Add an optimizer": (
        "extempo.optim.adaptive",
        """
w, same = (ex.ones(2, requires_grad=True) for _ in range(2))
for p, optimizer in ((w, place.Adagrad([w], lr=0.1)), (same, ex.optim.Adagrad([same], lr=0.1))):
    for _ in range(3):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
assert w.tolist() == same.tolist() != [1.0, 1.0]
""",
    ),
    "Add a command": (
        "extempo.cli.main",
        """
import json
from click.testing import CliRunner
assert "versions" in json.loads(CliRunner().invoke(place.command, ["info", "--json"]).output)
""",
    ),
}


@pytest.mark.parametrize("title", USES)
def test_a_worked_example_runs_where_it_goes(title):
    module, use = USES[title]
    code = "from __future__ import annotations\n" + examples(title)  # as every module begins
    program = f"""
import importlib
import extempo as ex
import extempo.testing
import extempo.optim.adaptive
place = importlib.import_module({module!r})
exec({code!r}, vars(place))
{use}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
