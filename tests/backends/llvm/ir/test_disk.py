"""The disk cache returns what was stored or nothing, whatever happens to its files, its directory or its processes."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from extempo.backends.llvm.ir import disk
from extempo.backends.llvm.ir.disk import BLOCK, DiskCache, chosen_directory, key_of

posix = pytest.mark.skipif(os.name == "nt", reason="owners and modes are not checked on Windows")
KEY = key_of("define void @f() { ret void }", "x86-64", "+avx2", "20.1")
DATA = bytes(range(256)) * 20


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "kernels")


def path_of(cache: DiskCache, key: str = KEY) -> Path:
    return cache.directory / key[:2] / key[2:]


def keys(n_keys: int) -> list[str]:
    return [key_of("kernel", str(number)) for number in range(n_keys)]


def temporary_files(cache: DiskCache) -> list[Path]:
    return list(cache.directory.rglob("*.tmp"))


def age(path: Path, seconds: int) -> None:
    """Set the time of last use; larger is longer ago."""
    os.utime(path, ns=(0, (10**9 - seconds) * 10**9))


def run(code: str, *arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def finish(process: subprocess.Popen) -> str:
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return output


# Keys


def test_a_key_is_64_hex_digits_and_the_same_in_every_process():
    assert len(KEY) == 64
    code = "from extempo.backends.llvm.ir.disk import key_of; print(key_of('ä', 'cpu'))"
    assert finish(run(code)).strip() == key_of("ä", "cpu")


def test_a_key_tells_apart_which_part_a_letter_belongs_to():
    found = {key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("abc", ""), key_of("c", "ab"), key_of()}
    assert len(found) == 6


def test_a_new_format_makes_new_keys(monkeypatch):
    monkeypatch.setattr(disk, "FORMAT", disk.FORMAT + 1)
    assert key_of("define void @f() { ret void }", "x86-64", "+avx2", "20.1") != KEY


# Storing and finding


@pytest.mark.parametrize("data", [b"", b"\0", DATA, bytes(10**6)], ids=["empty", "one byte", "usual", "large"])
def test_what_was_stored_is_found_by_another_cache_of_that_directory(cache, data):
    assert cache.get(KEY) is None
    cache.put(KEY, data)
    later = DiskCache(cache.directory)
    assert later.get(KEY) == data
    assert (cache.misses, cache.hits, later.misses, later.hits) == (1, 0, 0, 1)


def test_storing_again_replaces(cache):
    cache.put(KEY, b"old")
    cache.put(KEY, b"new")
    assert cache.get(KEY) == b"new"
    assert cache.stats()["entries"] == 1


@posix
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_directories_and_files_are_for_the_user_alone_whatever_the_umask(tmp_path, umask):
    cache = DiskCache(tmp_path / "home" / ".cache" / "extempo")
    before = os.umask(umask)
    try:
        cache.put(KEY, DATA)
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(cache).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(cache).stat().st_mode) == 0o600
    assert cache.get(KEY) == DATA


def test_stats_count_entries_space_and_what_was_found(cache):
    cache.get(KEY)
    cache.put(KEY, DATA)
    cache.get(KEY)
    path_of(cache).write_bytes(b"")
    cache.get(KEY)
    cache.put(KEY, DATA)
    assert cache.stats() == {
        "entries": 1,
        "bytes": 2 * BLOCK,
        "limit_bytes": disk.LIMIT_BYTES,
        "hits": 1,
        "misses": 1,
        "rejected": 1,
        "evicted": 0,
    }


def test_clear_removes_all_that_the_cache_made_and_nothing_else(cache):
    for key in keys(20):
        cache.put(key, DATA)
    cache._save_counts()
    foreign = [cache.directory / "notes.txt", path_of(cache, keys(1)[0]).parent / "notes.txt"]
    for path in foreign:
        path.write_text("mine")
    assert cache.clear() == {"entries": 20, "bytes": 20 * 2 * BLOCK}
    assert [path for path in cache.directory.rglob("*") if path.is_file()] == foreign
    cache.put(KEY, DATA)
    assert cache.get(KEY) == DATA


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_clear_does_not_follow_links_out_of_the_directory(cache, tmp_path):
    cache.put(KEY, DATA)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / KEY[2:]).write_text("precious")
    path_of(cache).parent.rename(tmp_path / "moved")
    path_of(cache).parent.symlink_to(elsewhere)
    cache.clear()
    assert (elsewhere / KEY[2:]).read_text() == "precious"


# Entries that are not whole


@pytest.mark.parametrize("n_bytes", [0, 1, 8, 39, 40, 41, -1], ids=lambda n: f"to {n} bytes")
def test_a_truncated_entry_is_rejected_and_rebuilt(cache, n_bytes):
    cache.put(KEY, DATA)
    path_of(cache).write_bytes(path_of(cache).read_bytes()[:n_bytes])
    assert cache.get(KEY) is None
    assert (cache.rejected, cache.hits, cache.misses) == (1, 0, 0)
    cache.put(KEY, DATA)
    assert cache.get(KEY) == DATA


def test_any_flipped_bit_is_noticed(cache):
    cache.put(KEY, b"short")
    whole = path_of(cache).read_bytes()
    for position in range(len(whole)):
        for bit in (1, 128):
            altered = bytearray(whole)
            altered[position] ^= bit
            path_of(cache).write_bytes(altered)
            assert cache.get(KEY) is None, f"bit {bit} of byte {position}"
    path_of(cache).write_bytes(whole)
    assert cache.get(KEY) == b"short"


def test_bytes_after_the_end_are_noticed(cache):
    cache.put(KEY, DATA)
    path_of(cache).write_bytes(path_of(cache).read_bytes() + b"\0")
    assert cache.get(KEY) is None


def test_an_entry_under_the_name_of_another_is_rejected(cache):
    first, second = keys(2)
    cache.put(first, DATA)
    cache.put(second, b"other")
    os.replace(path_of(cache, first), path_of(cache, second))
    assert cache.get(second) is None
    assert cache.rejected == 1


def test_an_entry_of_another_format_is_rejected(cache, monkeypatch):
    monkeypatch.setattr(disk, "_HEADER", b"extempo\x00")
    cache.put(KEY, DATA)
    monkeypatch.undo()
    assert cache.get(KEY) is None


def test_a_directory_in_place_of_an_entry_is_rejected(cache):
    cache.put(key_of(), DATA)
    path_of(cache).mkdir(parents=True)
    assert cache.get(KEY) is None
    assert cache.rejected == 1


# Whom to trust


@posix
@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702, 0o1777])
def test_a_directory_that_others_can_write_is_not_used_and_the_warning_says_what_to_do(cache, mode):
    cache.put(KEY, DATA)
    cache.directory.chmod(mode)
    later = DiskCache(cache.directory)
    with pytest.warns(UserWarning, match=rf"can be written by other users .* run chmod go-w {cache.directory}, or set"):
        assert later.get(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        later.put(key_of("more"), DATA)
        assert later.get(KEY) is None
    assert later.stats()["entries"] == 1
    assert "can be written by other users" in later.why_unused()
    assert later.clear() == {"entries": 0, "bytes": 0}
    cache.directory.chmod(0o755)
    assert DiskCache(cache.directory).get(KEY) == DATA


@posix
def test_a_directory_of_another_user_is_not_used(cache, monkeypatch):
    cache.put(KEY, DATA)
    stranger = os.geteuid() + 1
    monkeypatch.setattr(disk.os, "geteuid", lambda: stranger)
    later = DiskCache(cache.directory)
    with pytest.warns(UserWarning, match="belongs to another user, .* set EXTEMPO_CACHE_DIR to a directory of your"):
        assert later.get(KEY) is None
    assert later.clear() == {"entries": 0, "bytes": 0}


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_that_another_user_put_into_the_directory_is_not_loaded(cache):
    cache.put(KEY, DATA)
    os.chown(path_of(cache), 12345, -1)
    with pytest.warns(UserWarning, match="belongs to another user; it is not loaded"):
        assert cache.get(KEY) is None
    assert cache.rejected == 1


@posix
def test_a_file_that_others_can_write_is_not_loaded_and_the_next_store_replaces_it(cache):
    cache.put(KEY, DATA)
    path_of(cache).chmod(0o666)
    with pytest.warns(UserWarning, match="a file in .* can be written by other users .*; it is not loaded"):
        assert cache.get(KEY) is None
    cache.put(KEY, DATA)
    assert cache.get(KEY) == DATA


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_an_entry_that_is_a_link_is_rejected(cache, tmp_path):
    cache.put(KEY, DATA)
    path_of(cache).rename(tmp_path / "moved")
    path_of(cache).symlink_to(tmp_path / "moved")
    assert cache.get(KEY) is None
    assert cache.rejected == 1


@posix
def test_pipes_in_place_of_files_are_not_waited_for(cache):
    cache.put(KEY, DATA)
    for path in (path_of(cache), cache.directory / "meter", cache.directory / "counts"):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    assert cache.get(KEY) is None
    assert cache.rejected == 1
    assert cache.history() == {"hits": 0, "misses": 0, "rejected": 0, "evicted": 0}
    cache._save_counts()
    cache.put(KEY, DATA)  # a meter that cannot be written: nothing is stored
    assert cache.get(KEY) is None
    (cache.directory / "meter").unlink()
    cache.put(KEY, DATA)
    assert cache.get(KEY) == DATA


@posix
def test_an_entry_larger_than_the_cache_is_not_read(cache):
    cache.put(KEY, DATA)
    cache.limit_bytes = len(DATA)
    assert cache.get(KEY) is None
    assert cache.rejected == 1


@posix
def test_a_link_to_a_directory_is_followed_only_if_the_user_or_root_made_it(cache, tmp_path, monkeypatch):
    cache.put(KEY, DATA)
    link = tmp_path / "link"
    link.symlink_to(cache.directory)
    assert DiskCache(link).get(KEY) == DATA
    lstat = os.lstat

    def lstat_of_a_strangers_link(path):
        status = list(lstat(path))
        status[stat.ST_UID] = os.geteuid() + 1
        return os.stat_result(status)

    monkeypatch.setattr(disk.os, "lstat", lstat_of_a_strangers_link)
    with pytest.warns(UserWarning, match="is a link that another user made"):
        assert DiskCache(link).get(KEY) is None


def test_owners_are_not_asked_for_where_there_are_none(cache, monkeypatch):
    monkeypatch.setattr(disk, "_OWNERS_ARE_KNOWN", False)
    monkeypatch.delattr(disk.os, "geteuid", raising=False)
    cache.put(KEY, DATA)
    assert cache.get(KEY) == DATA


# Directories that are not there, and disks that are full


@pytest.mark.parametrize("value", ["", " ", "off", "OFF"])
def test_the_cache_can_be_switched_off(value):
    cache = DiskCache(chosen_directory({"EXTEMPO_CACHE_DIR": value}))
    cache.put(KEY, DATA)
    assert cache.get(KEY) is None
    assert cache.stats()["entries"] == cache.stats()["misses"] == 0
    assert cache.clear() == {"entries": 0, "bytes": 0}
    assert "EXTEMPO_CACHE_DIR" in cache.why_unused()


def test_the_environment_chooses_the_directory(tmp_path, monkeypatch):
    assert chosen_directory({"EXTEMPO_CACHE_DIR": str(tmp_path)}) == tmp_path
    monkeypatch.chdir(tmp_path)
    assert chosen_directory({"EXTEMPO_CACHE_DIR": "here"}) == Path.cwd() / "here"
    monkeypatch.setattr(disk.os.path, "expanduser", lambda path: path.replace("~", str(tmp_path)))
    assert chosen_directory({"EXTEMPO_CACHE_DIR": "~/kernels"}) == tmp_path / "kernels"


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "{home}/.cache/extempo"),
        ("linux", {"XDG_CACHE_HOME": "{home}/xdg"}, "{home}/xdg/extempo"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "{home}/.cache/extempo"),
        ("linux", {"XDG_CACHE_HOME": ""}, "{home}/.cache/extempo"),
        ("darwin", {"XDG_CACHE_HOME": "{home}/xdg"}, "{home}/Library/Caches/extempo"),
        ("win32", {"LOCALAPPDATA": "{home}"}, "{home}/extempo/cache"),
        ("win32", {}, None),
    ],
)
def test_by_default_the_platform_says_where_caches_lie(tmp_path, monkeypatch, platform, environment, expected):
    monkeypatch.setattr(disk.sys, "platform", platform)
    monkeypatch.setattr(disk.os.path, "expanduser", lambda path: path.replace("~", str(tmp_path)))
    directory = chosen_directory({name: value.format(home=tmp_path) for name, value in environment.items()})
    assert directory == (Path(expected.format(home=tmp_path)) if expected else None)


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    monkeypatch.setattr(disk.sys, "platform", "linux")
    monkeypatch.setattr(disk.os.path, "expanduser", lambda path: path)
    assert chosen_directory({}) is None


def test_a_file_in_place_of_the_directory_costs_one_warning(tmp_path):
    (tmp_path / "kernels").write_text("")
    cache = DiskCache(tmp_path / "kernels")
    with pytest.warns(UserWarning, match="is not a directory; set EXTEMPO_CACHE_DIR"):
        cache.put(KEY, DATA)
    assert cache.get(KEY) is None


def test_a_directory_that_cannot_be_made_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "kernels")
    with pytest.warns(UserWarning, match="cannot be made .*; set EXTEMPO_CACHE_DIR"):
        assert cache.get(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, DATA)
        assert cache.get(KEY) is None


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_directory_still_serves_what_it_has(cache):
    cache.put(KEY, DATA)
    for directory in (path_of(cache).parent, cache.directory):
        directory.chmod(0o500)
    (cache.directory / "meter").chmod(0o400)
    try:
        later = DiskCache(cache.directory)
        assert later.get(KEY) == DATA
        with pytest.warns(UserWarning, match="cannot be written"):
            later.put(key_of("more"), DATA)
        assert "cannot be written" in later.why_unused()
    finally:
        for directory in (cache.directory, path_of(cache).parent):
            directory.chmod(0o700)


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_a_write_that_the_system_refuses_costs_one_warning_and_hits_go_on(cache, monkeypatch, code):
    cache.put(KEY, DATA)
    open_file = os.open

    def open_to_read(path, flags, *mode, **options):
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(code, os.strerror(code))
        return open_file(path, flags, *mode, **options)

    def refuse(*arguments, **options):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(disk.os, "open", open_to_read)
    monkeypatch.setattr(disk.os, "utime", refuse)
    with pytest.warns(UserWarning, match="cannot be written .*; set EXTEMPO_CACHE_DIR"):
        cache.put(key_of("first"), DATA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(key_of("second"), DATA)
        cache._save_counts()
        assert cache.get(KEY) == DATA


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_disk_that_fills_up_in_the_middle_of_a_file_leaves_no_part_of_it(tmp_path):
    code = """
import resource, sys, warnings
from pathlib import Path
from extempo.backends.llvm.ir.disk import DiskCache, key_of
cache = DiskCache(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    cache.put(key_of("large"), bytes(9000))
    cache.put(key_of("small"), bytes(900))
print(len(caught), cache.get(key_of("large")), len(cache.get(key_of("small"))))
"""
    assert finish(run(code, str(tmp_path / "kernels"))) == "1 None 900\n"
    assert temporary_files(DiskCache(tmp_path / "kernels")) == []


def test_a_directory_removed_under_a_running_program_is_made_again(cache):
    cache.put(KEY, DATA)
    cache.clear()
    cache.directory.rmdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, DATA)
        assert cache.get(KEY) is None
        cache.put(KEY, DATA)
    assert cache.get(KEY) == DATA


# Size


def small_cache(directory: Path, n_blocks: int = 40) -> DiskCache:
    return DiskCache(directory, limit_bytes=n_blocks * BLOCK)


def test_the_size_stays_below_the_limit(tmp_path):
    cache = small_cache(tmp_path / "kernels")
    for number, key in enumerate(keys(200)):
        cache.put(key, bytes(1 + number * 37 % (3 * BLOCK)))
        assert cache.stats()["bytes"] <= cache.limit_bytes
    assert cache.stats()["bytes"] >= cache.limit_bytes / 2
    assert cache.evicted > 0
    assert cache.get(keys(200)[-1]) is not None, "what was stored last is kept"


def test_what_was_used_longest_ago_goes_first(tmp_path):
    cache = small_cache(tmp_path / "kernels")
    names = keys(40)
    for number, key in enumerate(names):
        cache.put(key, b"kernel")
        age(path_of(cache, key), 1000 - number)
    assert cache.get(names[0]) == b"kernel"  # and so it is the one used last
    cache.put(key_of("one more"), b"kernel")
    kept = [key for key in names if path_of(cache, key).exists()]
    assert kept == [names[0], *names[11:]]
    assert cache.evicted == 10


def test_an_entry_too_large_for_the_limit_is_not_stored(tmp_path):
    cache = small_cache(tmp_path / "kernels")
    cache.put(KEY, b"kernel")
    cache.put(key_of("huge"), bytes(11 * BLOCK))
    assert cache.get(key_of("huge")) is None
    assert cache.get(KEY) == b"kernel"
    cache.put(key_of("large"), bytes(9 * BLOCK))
    assert cache.get(key_of("large")) == bytes(9 * BLOCK)


def test_the_directory_is_not_listed_while_there_is_room(cache, monkeypatch):
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(disk.os, "scandir", lambda path: listed.append(path) or scandir(path))
    for key in keys(50):
        cache.put(key, DATA)
        cache.get(key)
    assert listed == [cache.directory]  # when the meter was new


@pytest.mark.parametrize("meter", [None, b"", bytes(10**6)], ids=["lost", "emptied", "much too high"])
def test_a_wrong_meter_is_set_right(tmp_path, meter):
    cache = small_cache(tmp_path / "kernels")
    for key in keys(30):
        cache.put(key, b"kernel")
    path = cache.directory / "meter"
    path.unlink()
    if meter is not None:
        path.write_bytes(meter)
    cache.put(KEY, b"kernel")
    assert cache.stats()["entries"] == path.stat().st_size == 31
    assert cache.evicted == 0


def test_several_processes_share_one_meter(tmp_path):
    caches = [small_cache(tmp_path / "kernels") for _ in range(4)]
    for number, key in enumerate(keys(200)):
        caches[number % 4].put(key, b"kernel")
        assert caches[0].stats()["entries"] <= 40


# Many processes, and processes that end badly

WRITER = """
import sys
from pathlib import Path
from extempo.backends.llvm.ir.disk import DiskCache, key_of
first, n_blocks = int(sys.argv[2]), int(sys.argv[3])
cache = DiskCache(Path(sys.argv[1]), n_blocks * 4096)
sys.stdin.readline()
for turn in range(3):
    for number in range(first, first + 100):
        key, data = key_of(str(number)), str(number).encode() * 1000
        found = cache.get(key)
        assert found in (None, data), number
        if found is None:
            cache.put(key, data)
print(cache.rejected)
"""


def write_at_once(directory: Path, n_blocks: int) -> None:
    """Three processes store overlapping keys and read them, all let go at the same moment."""
    writers = [run(WRITER, str(directory), str(first), str(n_blocks), stdin=subprocess.PIPE) for first in (0, 30, 60)]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        assert finish(writer) == "0\n"


@pytest.mark.alone
def test_processes_that_write_at_once_never_see_a_part_and_lose_nothing(tmp_path):
    write_at_once(tmp_path / "kernels", 100_000)
    cache = DiskCache(tmp_path / "kernels")
    for number in range(160):
        assert cache.get(key_of(str(number))) == str(number).encode() * 1000
    assert temporary_files(cache) == []


@pytest.mark.alone
def test_processes_that_write_and_make_room_at_once_keep_the_bound(tmp_path):
    write_at_once(tmp_path / "kernels", 60)
    cache = small_cache(tmp_path / "kernels", 60)
    # Each of three processes may have one entry under way that another one's meter does not count.
    assert 0 < cache.stats()["bytes"] <= cache.limit_bytes + 2 * BLOCK
    assert temporary_files(cache) == []


@pytest.mark.alone
@posix
def test_a_killed_writer_leaves_nothing_that_is_read_and_making_room_removes_what_it_left(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from extempo.backends.llvm.ir import disk
disk.os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
disk.DiskCache(Path(sys.argv[1])).put(sys.argv[2], bytes(5000))
"""
    cache = small_cache(tmp_path / "kernels")

    def kill_a_writer() -> None:
        writer = run(code, str(cache.directory), KEY)
        writer.communicate(timeout=60)
        assert writer.returncode == -signal.SIGKILL
        assert len(temporary_files(cache)) == 1

    kill_a_writer()
    assert cache.get(KEY) is None
    assert (cache.misses, cache.rejected, cache.stats()["entries"]) == (1, 0, 0)
    for key in keys(41):
        cache.put(key, b"kernel")
    assert cache.evicted > 0
    assert temporary_files(cache) == []

    kill_a_writer()
    cache.clear()
    assert temporary_files(cache) == []


def test_a_writer_whose_temporary_file_was_cleared_away_goes_on_without_a_word(cache, monkeypatch):
    replace = os.replace

    def clear_first(*paths):
        DiskCache(cache.directory).clear()
        replace(*paths)

    monkeypatch.setattr(disk.os, "replace", clear_first)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, DATA)
    monkeypatch.undo()
    cache.put(KEY, DATA)
    assert cache.get(KEY) == DATA


def test_a_file_that_cannot_be_replaced_because_it_is_read_is_left_without_a_word(cache, monkeypatch):
    cache.put(KEY, DATA)

    def refuse(*paths):
        raise PermissionError(errno.EACCES, "in use")

    monkeypatch.setattr(disk.os, "replace", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, DATA)
    assert cache.get(KEY) == DATA
    assert temporary_files(cache) == []


# The cache of the process


@pytest.fixture
def no_default(monkeypatch, tmp_path):
    monkeypatch.setattr(disk, "_DEFAULT", {})
    monkeypatch.setattr(disk.atexit, "register", lambda function: None)
    monkeypatch.setenv("EXTEMPO_CACHE_DIR", str(tmp_path / "chosen"))


@pytest.mark.usefixtures("no_default")
def test_the_default_cache_is_one_and_reads_the_environment_once(tmp_path, monkeypatch):
    first = disk.default()
    monkeypatch.setenv("EXTEMPO_CACHE_DIR", str(tmp_path / "other"))
    assert disk.default() is first
    assert first.directory == tmp_path / "chosen"
    assert not first.directory.exists(), "asking for the cache makes no directory"


@pytest.mark.alone
@pytest.mark.usefixtures("no_default")
def test_threads_that_ask_at_once_get_the_same_cache():
    barrier = threading.Barrier(8)
    found = []

    def ask():
        barrier.wait()
        found.append(disk.default())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


COUNTING = """
import os, sys
from extempo.backends.llvm.ir import disk
key = disk.key_of("kernel")
if disk.default().get(key) is None:
    disk.default().put(key, b"code")
assert disk.default().get(key) == b"code"
if "fork" in sys.argv and os.fork() == 0:
    assert disk.default().get(key) == b"code"
    disk.default().put(disk.key_of("from the child"), b"code")
    sys.exit(0)
if "fork" in sys.argv:
    assert os.wait()[1] == 0
"""


@pytest.mark.alone
def test_history_sums_up_what_ended_processes_found(tmp_path):
    environment = {**os.environ, "EXTEMPO_CACHE_DIR": str(tmp_path / "kernels")}
    for _ in range(3):
        finish(run(COUNTING, env=environment))
    cache = DiskCache(tmp_path / "kernels")
    assert cache.history() == {"hits": 5, "misses": 1, "rejected": 0, "evicted": 0}
    cache.clear()
    assert sum(cache.history().values()) == 0


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_uses_the_cache_and_does_not_count_its_parents_hits(tmp_path):
    environment = {**os.environ, "EXTEMPO_CACHE_DIR": str(tmp_path / "kernels")}
    finish(run(COUNTING, "fork", env=environment))
    cache = DiskCache(tmp_path / "kernels")
    assert cache.history()["hits"] == 1
    assert cache.get(key_of("from the child")) == b"code"


def test_the_file_of_counts_stays_small_and_keeps_its_sums(cache, monkeypatch):
    monkeypatch.setattr(disk, "_LARGEST_COUNTS_FILE", 1000)
    cache.put(KEY, DATA)
    cache.get(KEY)
    for _ in range(100):
        cache._save_counts()
    assert cache.history()["hits"] == 100
    assert (cache.directory / "counts").stat().st_size <= 1100
