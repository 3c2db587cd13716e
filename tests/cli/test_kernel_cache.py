"""`extempo cache`: what it prints of the kernels on disk, and what it removes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from extempo.backends.llvm.ir import disk
from extempo.backends.llvm.ir.disk import BLOCK, DiskCache, key_of
from extempo.cli import kernel_cache
from extempo.cli.main import command

KEYS = [key_of(str(number)) for number in range(3)]


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(command, ["cache", *arguments], prog_name="extempo")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The cache that the command sees, with three kernels and the counts of one process in it."""
    cache = DiskCache(tmp_path / "kernels")
    for key in KEYS:
        cache.put(key, bytes(2 * BLOCK))
        cache.get(key)
    cache._save_counts()
    monkeypatch.setattr(disk, "_DEFAULT", {"cache": DiskCache(cache.directory)})
    return cache


def test_cache_alone_prints_its_help():
    result = run()
    assert result.exit_code == 0
    for name in ("clear", "info"):
        assert f"\n  {name} " in result.output
    assert "..." not in result.output.partition("Commands:")[2], "each line of help fits"


def test_info_tells_where_how_much_and_how_often(cache):
    result = run("info")
    assert result.exit_code == 0
    rows = dict(line.split(maxsplit=1) for line in result.output.splitlines()[2:] if line and "Counts" not in line)
    assert rows.items() >= {"kernels": "3", "size": "0.0 MB of at most 256.0 MB", "hits": "3", "misses": "0"}.items()
    assert str(cache.directory) in result.output.replace("\n", "").replace(" ", "")
    assert max(map(len, result.output.splitlines())) <= 80


def test_info_as_json_has_the_same_facts(cache):
    assert json.loads(run("info", "--json").output) == {
        "directory": str(cache.directory),
        "unused_because": "",
        "entries": 3,
        "bytes": 3 * 3 * BLOCK,
        "limit_bytes": disk.LIMIT_BYTES,
        "history": {"hits": 3, "misses": 0, "rejected": 0, "evicted": 0},
    }


def test_info_makes_no_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_DEFAULT", {"cache": DiskCache(tmp_path / "none yet")})
    assert json.loads(run("info", "--json").output)["unused_because"] == ""
    assert list(tmp_path.iterdir()) == []


def test_clear_removes_the_kernels_and_the_counts(cache):
    result = run("clear")
    assert result.exit_code == 0
    assert result.output.replace("\n", " ").startswith("Removed 3 kernels (0.0 MB) from ")
    assert cache.stats()["entries"] == 0
    assert sum(cache.history().values()) == 0
    assert run("clear").output.startswith("Removed 0 kernels")


def test_clear_as_json_tells_what_went(cache):
    assert json.loads(run("clear", "--json").output) == {
        "directory": str(cache.directory),
        "unused_because": "",
        "entries": 3,
        "bytes": 3 * 3 * BLOCK,
        "entries_left": 0,
    }


@pytest.mark.skipif(os.name == "nt", reason="modes are not checked on Windows")
def test_a_directory_that_others_can_write_is_explained_and_left_alone(cache):
    cache.directory.chmod(0o777)
    unwrapped = " ".join(run("info").output.split())
    assert "in use no: " in unwrapped
    assert "can be written by other users (mode 0777)" in unwrapped
    result = run("clear")
    unwrapped = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "Could not remove 3 kernels: " in unwrapped
    assert "chmod go-w" in unwrapped
    assert cache.stats()["entries"] == 3


def test_a_cache_that_is_switched_off_says_so(monkeypatch):
    monkeypatch.setattr(disk, "_DEFAULT", {"cache": DiskCache(None)})
    assert "in use     no: EXTEMPO_CACHE_DIR switches it off" in run("info").output
    result = run("clear")
    assert result.exit_code == 0
    assert result.output.startswith("There is no cache to clear: EXTEMPO_CACHE_DIR")


def test_one_kernel_is_spelled_as_one(tmp_path):
    cache = DiskCache(tmp_path / "kernels")
    cache.put(KEYS[0], b"")
    assert str(kernel_cache.removal_as_text(kernel_cache.clear(cache)).renderables[0]).startswith("Removed 1 kernel (")


def test_the_command_reads_the_environment(tmp_path):
    environment = {**os.environ, "EXTEMPO_CACHE_DIR": str(tmp_path / "mine")}
    command_line = [sys.executable, "-m", "extempo", "cache", "info", "--json"]
    output = subprocess.run(command_line, env=environment, check=True, capture_output=True, text=True).stdout
    assert json.loads(output)["directory"] == str(tmp_path / "mine")
