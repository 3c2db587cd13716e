"""The native code of the thread pool; `threads` has its contract and the argument why it is right.

Policy is here too: when a sleeping helper is worth waking, and when the CPUs are wanted elsewhere.
"""

from __future__ import annotations

from ..ir.builder import IRFunction, IRModule, IRVariable, Value, f64, i1, i32, i64, ptr, void
from .thread_words import (
    CHUNK_TIMES,
    CONDITION,
    COUNTERS,
    HANDLES,
    MASK_WORDS,
    MAX_HELPERS,
    MUTEX,
    N_CHUNK_TIMES,
    SIGNALS,
    Target,
    Words,
    call,
    forever,
    write_foundations,
)

MAX_CHUNKS = 0xFFFF  # of one job; more are run as several
STACK_BYTES = 8 << 20  # what a main thread has

# Nanoseconds.
WATCH = 50_000  # a helper watches for the next job before it sleeps
PATIENCE = 50_000  # the caller waits for helpers, beyond the time of two chunks, before it sleeps
CHUNK = 30_000  # the first guess of what a chunk takes
WAKING = 5_000  # the first guess of what it costs to wake a helper; a virtual machine may need ten times as long
LONGEST_WAKING = 100_000  # beyond it, the caller lost its CPU meanwhile
GIL_TURN = 5_000_000  # sys.getswitchinterval(): how long a Python thread may keep the GIL
CROWDED = 1_000_000  # counts as lost when helpers found no CPU but the caller's
LONGEST_REST = 1_000_000_000
REST = 40  # jobs run without helpers for so many times what was lost by them

FREE, TAKEN, HELD = 0, 1, 2  # `lock`: nobody's, a job's, or kept for the time of a fork


def write_threads(module: IRModule, target: Target) -> None:
    """Everything; the names that begin with `extempo_` are for others."""
    write_foundations(module, target)
    _write_helper(module)
    _write_start(module, target)
    _write_stop(module)
    _write_turn(module)
    _write_alone(module)
    _write_wake_helpers(module)
    _write_wait(module)
    _write_shared(module)
    _write_parallel(module)
    _write_long_part(module)
    _write_control(module, target)


# ---- helpers


def _write_helper(module: IRModule) -> None:
    """The life of a helper."""
    with module.function("help", ptr, internal=True, nothing=ptr) as b:
        words, watched = Words(b), b.var(i1, False)
        cpus = b.array(i64, MASK_WORDS)
        call(b, "allowed_cpus", void, cpus.address)
        with forever(b):
            seen = words.load("tickets")
            with b.if_(words.load("stopping") != 0):  # after the word was read: the one who stops changes it last
                b.ret(b.const(ptr, 0))
            idle = b.var(i1, (seen & MAX_CHUNKS) == 0)
            # On the caller's CPU, help would be in its way.
            with b.if_(call(b, "avoid_cpu", i1, words.load("cpu"), cpus.address)):
                with b.if_(~idle.value):
                    words.store("crowded", 1)
                idle.set(True)
                watched.set(True)
            rest, work = b.if_else(idle.value)
            with rest:
                _rest(b, words, b.cast("trunc", seen, i32), watched)
            with work:
                watched.set(False)
                _claim_and_run(b, words, seen)


def _rest(b: IRFunction, words: Words, seen: Value, watched: IRVariable) -> None:
    """Watch for work, and the second time sleep."""
    sleep, watch = b.if_else(watched.value)
    with sleep:
        words.change("sleepers", "add", 1)
        call(b, "sleep_while", void, words.at("tickets"), seen)
        words.change("sleepers", "sub", 1)
        watched.set(False)
    with watch:
        call(b, "watch", void, words.at("tickets"), seen, call(b, "now", i64) + WATCH)
        watched.set(True)


def _claim_and_run(b: IRFunction, words: Words, seen: Value) -> None:
    function, context = words.load("function"), words.load("context")
    chunk = words.load("first") + words.load("count") - (seen & MAX_CHUNKS)
    with b.if_(words.replace("tickets", seen, seen - 1)):
        b.call_address(function, void, context, chunk)
        words.change("helped_chunks", "add", 1)
        with b.if_(words.change("pending", "sub", 1) == 1):
            b.line("fence seq_cst")
            with b.if_(words.load("awaited") != 0):
                call(b, "wake", void, words.at("pending"), b.const(i32, 1))


def _write_start(module: IRModule, target: Target) -> None:
    """Start the helpers that are wanted and not there; as many as the system gives."""
    with module.function("start", void, internal=True) as b:
        words, memory = Words(b), module.address_of(b, "pool")
        old_mask, attributes = b.array(i64, 16), b.array(i64, 16)
        mask = b.const(i32, target.set_mask)
        call(b, "pthread_sigmask", i32, mask, b.byte_offset(memory, SIGNALS), old_mask.address)
        call(b, "pthread_attr_init", i32, attributes.address)
        call(b, "pthread_attr_setstacksize", i32, attributes.address, b.const(i64, STACK_BYTES))
        words.store("process", call(b, "getpid", i32))
        with b.loop(b.cast("sext", words.load("running"), i64), b.cast("sext", words.load("helpers"), i64)) as i:
            handle = b.byte_offset(memory, i * 8 + HANDLES)
            null, entry = b.const(ptr, 0), module.address_of(b, "help")
            with b.if_(call(b, "pthread_create", i32, handle, attributes.address, entry, null) != 0):
                words.store("helpers", b.cast("trunc", i, i32))
                b.break_()
            words.store("running", b.cast("trunc", i + 1, i32))
        call(b, "pthread_attr_destroy", i32, attributes.address)
        call(b, "pthread_sigmask", i32, mask, old_mask.address, b.const(ptr, 0))


def _write_stop(module: IRModule) -> None:
    """End all helpers; only who has the lock may."""
    with module.function("stop", void, internal=True) as b:
        words, memory = Words(b), module.address_of(b, "pool")
        words.store("stopping", 1)
        words.change("tickets", "add", MAX_CHUNKS + 1)
        call(b, "wake", void, words.at("tickets"), b.const(i32, MAX_HELPERS))
        # After a fork behind Python's back they are not there, and waiting for them would never end.
        with (
            b.if_(words.load("process") == call(b, "getpid", i32)),
            b.loop(0, b.cast("sext", words.load("running"), i64)) as i,
        ):
            handle = b.load(i64, b.byte_offset(memory, i * 8 + HANDLES))
            call(b, "pthread_join", i32, handle, b.const(ptr, 0))
        for name in ("running", "sleepers", "stopping"):
            words.store(name, 0)


# ---- the caller


class _JobFrame:
    """What a caller knows of its job's course."""

    saved, began, last = range(3)  # Python's thread state, or null; when it began, and its last chunk ended

    def __init__(self, b: IRFunction, address: Value) -> None:
        self.b = b
        self.address = address
        self._words = b.pointer(address, i64)

    def get(self, index: int) -> Value:
        return self._words[index]

    def set(self, index: int, value: Value) -> None:
        self._words[index] = value

    def give_gil(self) -> None:
        """Let other Python threads run until `take_gil`."""
        b = self.b
        with b.if_(self.get(self.saved) == 0), b.if_(call(b, "PyGILState_Check", i32) != 0):
            self.set(self.saved, b.cast("ptrtoint", call(b, "PyEval_SaveThread", ptr), i64))

    def take_gil(self) -> None:
        b = self.b
        with b.if_(self.get(self.saved) != 0):
            call(b, "PyEval_RestoreThread", void, b.cast("inttoptr", self.get(self.saved), ptr))


def _write_turn(module: IRModule) -> None:
    """What the caller does after each of its chunks: note the time, and think of other Python threads."""
    with module.function("turn", void, internal=True, frame=ptr) as b:
        frame = _JobFrame(b, b.arg("frame"))
        now = call(b, "now", i64)
        frame.set(frame.last, now)
        with b.if_(now - frame.get(frame.began) > GIL_TURN):
            frame.give_gil()


def _write_alone(module: IRModule) -> None:
    args = {"function": ptr, "context": ptr, "n_chunks": i64, "frame": ptr}
    with module.function("run_alone", void, internal=True, **args) as b, b.loop(0, b.arg("n_chunks")) as i:
        b.call_address(b.arg("function"), void, b.arg("context"), i)
        call(b, "turn", void, b.arg("frame"))


def _write_wake_helpers(module: IRModule) -> None:
    """Wake as many as pay: the time with m of them, work / (1 + m) + m * cost, is least at the root below.

    The cost of one is the time of the call and as much again until it is there. Jobs so close to each other that a
    helper stays awake between them count as one.
    """
    with module.function("wake_helpers", void, internal=True, work=i64, others=i32) as b:
        words = Words(b)
        close = call(b, "now", i64) - words.load("ended_at") < WATCH
        streak = b.arg("work") + b.select(close, words.load("streak"), 0)
        words.store("streak", streak)
        waking = words.load("waking")
        ratio = b.cast("sitofp", streak, f64) / b.cast("sitofp", waking * 2, f64)
        paying = b.cast("fptosi", b.intrinsic("sqrt", ratio), i32) - 1
        sleepers, running = words.load("sleepers"), words.load("running")
        useful = b.smaller(paying, b.smaller(running, b.arg("others")))
        n_woken = b.smaller(useful - (running - sleepers), sleepers)
        with b.if_(n_woken <= 0):
            b.ret()
        began = call(b, "now", i64)
        call(b, "wake", void, words.at("tickets"), n_woken)
        took = call(b, "now", i64) - began
        each = b.smaller(took // b.cast("sext", n_woken, i64), LONGEST_WAKING)
        words.store("waking", (waking * 7 + each) // 8 + 1)


def _write_wait(module: IRModule) -> None:
    """Wait for the chunks that helpers still run."""
    with module.function("wait", void, internal=True, frame=ptr, chunk_time=i64) as b:
        words, frame = Words(b), _JobFrame(b, b.arg("frame"))
        until = frame.get(frame.last) + b.arg("chunk_time") * 2 + PATIENCE
        left, now = b.var(i32, words.load("pending")), b.var(i64, 0)
        with b.while_(lambda: (left.value != 0) & (now.value < until)):
            call(b, "watch", void, words.at("pending"), left.value, until)
            left.set(words.load("pending"))
            now.set(call(b, "now", i64))
        with b.if_(left.value == 0):
            b.ret()
        frame.give_gil()
        words.store("awaited", 1)
        b.line("fence seq_cst")
        left.set(words.load("pending"))
        with b.while_(lambda: left.value != 0):
            call(b, "sleep_while", void, words.at("pending"), left.value)
            left.set(words.load("pending"))
        words.store("awaited", 0)


class _ChunkTime:
    """What a chunk of such a job takes the caller."""

    def __init__(self, b: IRFunction) -> None:
        self.b = b
        kind = b.cast("ptrtoint", b.arg("function"), i64) * 31 + b.arg("count")
        scattered = kind * -7046029254386353131  # 2^64 over the golden ratio
        place = b.binary("lshr", scattered, 64 - (N_CHUNK_TIMES - 1).bit_length())
        self._kept = b.pointer(b.byte_offset(b.module.address_of(b, "pool"), place * 16 + CHUNK_TIMES), i64)
        self._known = self._kept[0] == kind
        self._kept[0] = kind
        self.expected = b.select(self._known, self._kept[1], CHUNK)

    def learn(self, took: Value) -> None:
        """Slowly, and upwards by a quarter at most: a caller that lost its CPU took long for nothing."""
        b, expected = self.b, self.expected
        self._kept[1] = b.select(self._known, (expected * 3 + b.smaller(took, expected * 2)) // 4 + 1, took)


def _write_shared(module: IRModule) -> None:
    """Run chunks first .. first + count - 1 with the helpers."""
    args = {"function": ptr, "context": ptr, "first": i64, "count": i64, "frame": ptr}
    with module.function("run_shared", void, internal=True, **args) as b:
        words, frame, times = Words(b), _JobFrame(b, b.arg("frame")), _ChunkTime(b)
        opened = call(b, "now", i64)
        _open_job(b, words)
        others = b.cast("trunc", b.arg("count") - 1, i32)
        call(b, "wake_helpers", void, times.expected * b.arg("count"), others)
        began = call(b, "now", i64)
        b.call_address(b.arg("function"), void, b.arg("context"), b.arg("first"))
        call(b, "turn", void, b.arg("frame"))
        took = frame.get(frame.last) - began
        times.learn(took)
        chunk_time = b.larger(took, times.expected)
        mine = _run_claimed(b, words)
        with b.if_(words.change("pending", "sub", mine) != mine):  # a caller that lost its CPU is no measure
            call(b, "wait", void, b.arg("frame"), b.smaller(chunk_time, times.expected * 4))
        lost = call(b, "now", i64) - opened - chunk_time * b.arg("count")
        crowded = (mine == others) & (words.load("crowded") != 0)
        _rest_after(b, words, b.select(crowded, CROWDED, lost))


def _run_claimed(b: IRFunction, words: Words) -> Value:
    """Claim and run chunks of the caller's own job until there are none; how many."""
    mine = b.var(i32, 0)
    with forever(b):
        unclaimed = _claim(b, words)
        with b.if_(unclaimed == 0):
            b.break_()
        b.call_address(b.arg("function"), void, b.arg("context"), b.arg("first") + b.arg("count") - unclaimed)
        call(b, "turn", void, b.arg("frame"))
        mine.set(mine.value + 1)
    return mine.value


def _rest_after(b: IRFunction, words: Words, lost: Value) -> None:
    """Do without helpers for a while if the caller alone would have been faster: the CPUs are wanted elsewhere."""
    with b.if_(lost > 0):
        words.store("resume_at", call(b, "now", i64) + b.smaller(lost * REST, LONGEST_REST))
        words.change("losses", "add", 1)


def _open_job(b: IRFunction, words: Words) -> None:
    """All but the first chunk, which is the caller's, can be claimed from here on."""
    for name in ("function", "context", "first", "count"):
        words.store(name, b.arg(name))
    words.store("cpu", call(b, "cpu", i32))
    words.store("crowded", 0)
    words.store("pending", b.cast("trunc", b.arg("count") - 1, i32))
    words.change("tickets", "xchg", (words.load("tickets") | MAX_CHUNKS) + b.arg("count"))
    b.line("fence seq_cst")


def _claim(b: IRFunction, words: Words) -> Value:
    """Claim a chunk of the caller's own job: how many were unclaimed, this one included."""
    seen = b.var(i64, words.load("tickets"))
    with b.while_(lambda: (seen.value & MAX_CHUNKS) != 0):
        with b.if_(words.replace("tickets", seen.value, seen.value - 1)):
            b.break_()
        seen.set(words.load("tickets"))
    return seen.value & MAX_CHUNKS


def _write_parallel(module: IRModule) -> None:
    with module.function("extempo_parallel", void, function=ptr, context=ptr, n_chunks=i64) as b:
        words, n_chunks = Words(b), b.arg("n_chunks")
        function, context = b.arg("function"), b.arg("context")
        taken = b.var(i1, False)
        with b.if_(n_chunks > 1):
            taken.set(words.replace("lock", FREE, TAKEN))
        with b.if_(~taken.value):
            with b.loop(0, n_chunks) as i:
                b.call_address(function, void, context, i)
            b.ret()
        frame = _JobFrame(b, b.array(i64, 3).address)
        now = call(b, "now", i64)
        for index, value in enumerate((b.const(i64, 0), now, now)):
            frame.set(index, value)
        alone, shared = b.if_else((words.load("helpers") == 0) | (now < words.load("resume_at")))
        with alone:
            call(b, "run_alone", void, function, context, n_chunks, frame.address)
        with shared:
            with b.if_(words.load("helpers") > words.load("running")):
                call(b, "start", void)
            words.change("shared_jobs", "add", 1)
            with b.loop(0, n_chunks, MAX_CHUNKS) as first:
                count = b.smaller(n_chunks - first, MAX_CHUNKS)
                call(b, "run_shared", void, function, context, first, count, frame.address)
            words.store("ended_at", call(b, "now", i64))
        words.store("lock", FREE)
        frame.take_gil()


def _write_long_part(module: IRModule) -> None:
    """The one part of a job that surely takes longer than a Python thread may keep the GIL: others run meanwhile."""
    with module.function("extempo_long_part", void, function=ptr, context=ptr) as b:
        frame = _JobFrame(b, b.array(i64, 3).address)
        frame.set(frame.saved, b.const(i64, 0))
        frame.give_gil()
        b.call_address(b.arg("function"), void, b.arg("context"), b.const(i64, 0))
        frame.take_gil()


# ---- control, called from Python without the GIL


def _take_lock(b: IRFunction, words: Words, value: int) -> None:
    with b.while_(lambda: ~words.replace("lock", FREE, value)):
        call(b, "usleep", i32, b.const(i32, 50))


def _write_control(module: IRModule, target: Target) -> None:
    with module.function("extempo_pool_memory", ptr) as b:
        b.ret(module.address_of(b, "pool"))
    with module.function("extempo_pool_set", void, helpers=i32) as b:
        words = Words(b)
        words.store("helpers", b.arg("helpers"))
        with b.if_(words.load("lock") == HELD):  # within a fork: there are no helpers to end
            b.ret()
        _take_lock(b, words, TAKEN)
        with b.if_(words.load("running") > b.arg("helpers")):
            call(b, "stop", void)
        words.store("resume_at", 0)
        words.store("lock", FREE)
    with module.function("extempo_pool_hold", void) as b:
        words = Words(b)
        _take_lock(b, words, HELD)
        with b.if_(words.load("running") > 0):
            call(b, "stop", void)
    with module.function("extempo_pool_release", void) as b:
        Words(b).store("lock", FREE)
    with module.function("extempo_pool_reset", void) as b:
        words, memory = Words(b), module.address_of(b, "pool")
        words.store("tickets", (words.load("tickets") | MAX_CHUNKS) + 1)
        for name in ("pending", "awaited", "sleepers", "stopping", "resume_at", *COUNTERS, "lock"):
            words.store(name, 0)
        words.store("waking", WAKING)
        if target.futex_call is None:
            call(b, "pthread_mutex_init", i32, b.byte_offset(memory, MUTEX), b.const(ptr, 0))
            call(b, "pthread_cond_init", i32, b.byte_offset(memory, CONDITION), b.const(ptr, 0))
