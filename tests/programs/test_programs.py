"""Libraries written for PyTorch run on Extempo, unmodified, and show what they show on PyTorch 2.13.

`pip install --no-deps -r tests/programs/requirements.txt` installs them; without them the tests skip.
"""

from __future__ import annotations

import importlib.util
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIBRARIES = {
    "with_captum": "captum",
    "with_crf": "torchcrf",
    "with_einops": "einops",
    "with_entmax": "entmax",
    "with_flows": "zuko",
    "with_geoopt": "geoopt",
    "with_gpytorch": "gpytorch",
    "with_higher": "higher",
    "with_ignite": "ignite",
    "with_kornia": "kornia",
    "with_lightning": "pytorch_lightning",
    "with_local_attention": "local_attention",
    "with_metric_learning": "pytorch_metric_learning",
    "with_pyro": "pyro",
    "with_skorch": "skorch",
    "with_snntorch": "snntorch",
    "with_stable_baselines3": "stable_baselines3",
    "with_torch_geometric": "torch_geometric",
    "with_torchdiffeq": "torchdiffeq",
    "with_torchinfo": "torchinfo",
    "with_torchmetrics": "torchmetrics",
    "with_torchvision": "torchvision",
    "with_transformers": "transformers",
    "with_vector_quantize": "vector_quantize_pytorch",
    "with_x_transformers": "x_transformers",
}
DRAWS = {"with_stable_baselines3"}


def shown_by(program: str) -> dict[str, object]:
    library = LIBRARIES[program]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed: pip install --no-deps -r tests/programs/requirements.txt")
    command = [sys.executable, "-W", "ignore", "-m", "extempo.run", f"{program}.py"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def expected_of(program: str) -> dict[str, object]:
    return json.loads((HERE / "expected" / f"{program}.json").read_text())


def agree(found, expected) -> bool:
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(agree(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(agree, found, expected))
    if isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-3, abs_tol=1e-4) or (math.isnan(found) and math.isnan(expected))
    return found == expected


@pytest.mark.parametrize("program", sorted(set(LIBRARIES) - DRAWS))
def test_a_library_shows_what_it_shows_on_pytorch(program):
    found, expected = shown_by(program), expected_of(program)
    assert found.keys() == expected.keys()
    for name in expected:
        assert agree(found[name], expected[name]), f"{name}: {found[name]} instead of {expected[name]}"


def test_agents_reach_the_rewards_that_they_reach_on_pytorch():
    found, expected = shown_by("with_stable_baselines3"), expected_of("with_stable_baselines3")
    assert found["same"]
    lowest = statistics.mean(expected["rewards"]) - 2 * statistics.stdev(expected["rewards"])
    assert statistics.mean(found["rewards"]) >= lowest


def test_every_program_is_listed():
    assert {path.stem for path in HERE.glob("with_*.py")} == set(LIBRARIES)
    assert {path.stem for path in (HERE / "expected").glob("*.json")} == set(LIBRARIES)


@pytest.mark.parametrize("wrong", [{"a": 1.1}, {"a": 1.0, "b": 0}, {}, {"a": math.nan}])
def test_what_differs_is_noticed(wrong):
    assert agree({"a": 1.00001}, {"a": 1.0})
    assert wrong.keys() != {"a": 1.0}.keys() or not agree(wrong, {"a": 1.0})
