"""`tests/` mirrors `src/extempo`: a module that holds logic has a test file of its name, in a directory of its room."""

from __future__ import annotations

import ast
from pathlib import Path

import extempo

ROOT = Path(extempo.__file__).parent
TESTS = Path(__file__).parent
OF_THEIR_OWN = ((), ("conformance",), ("fuzz",), ("programs",))  # directories that are about the whole
# What a function of one statement may begin with and still decide something.
COMPOUND = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match)


def holds_logic(path: Path) -> bool:
    """Whether some function of the module does more than one thing; modules that only declare have none."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if len(body) > 1 or any(isinstance(statement, COMPOUND) for statement in body):
                return True
    return False


def test_file(path: Path) -> Path:
    """`nn/module.py` -> `nn/test_module.py`, `nn/__init__.py` -> `nn/test_init.py`, `a/_b.py` -> `a/test_b.py`."""
    module = path.relative_to(ROOT)
    return TESTS / module.parent / f"test_{module.stem.strip('_')}.py"


test_file.__test__ = False  # type: ignore[attr-defined]  # its name says what it returns: it is no test


def test_every_module_that_holds_logic_has_a_test_file_of_its_name():
    modules = [path for path in sorted(ROOT.rglob("*.py")) if holds_logic(path)]
    missing = [path.relative_to(ROOT) for path in modules if not test_file(path).exists()]
    assert not missing, f"{len(missing)} modules have no test file:\n" + "\n".join(map(str, missing))


def test_a_directory_of_tests_has_the_name_of_a_package():
    for path in TESTS.rglob("test_*.py"):
        directory = path.parent.relative_to(TESTS)
        assert directory.parts[:1] in OF_THEIR_OWN or (ROOT / directory).is_dir(), directory
