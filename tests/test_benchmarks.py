"""Every workload runs and computes what PyTorch computes, and the tables say what happened. Nothing is timed here."""

from __future__ import annotations

import importlib
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import extempo as ex

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SAMPLES_OF_ANY_SIZE = sorted(
    path.stem for path in (BENCHMARKS / "per_sample_models").glob("*.py") if "\nROWS = [" in path.read_text()
)
TIMED = re.findall(r'^    "(\w+)",$', (BENCHMARKS / "run.py").read_text(), re.M)
PER_SAMPLE = ["tree_lstm", "ragged_batch", "spinn", "reinforce"]


@pytest.fixture(scope="module", autouse=True)
def _benchmarks_can_be_imported():
    """As in a run of a file there; other tests see neither its modules nor its number of threads."""
    n_threads = ex.get_num_threads()
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))
    ex.set_num_threads(n_threads)
    for name, module in list(sys.modules.items()):
        if BENCHMARKS in Path(getattr(module, "__file__", None) or ROOT).parents:
            del sys.modules[name]


def load(name):
    return importlib.import_module(name)


def workloads(name):
    return load(name).WORKLOADS


def result(peer, times=(), losses=(1.0,), **more):
    return load("interleave").Result(peer, times=list(times), losses=list(losses), **more)


@pytest.mark.parametrize("name", TIMED)
def test_a_step_runs_and_its_loss_is_that_of_pytorch(name):
    (workload,) = workloads(name)
    step = workload.peers["extempo"]()
    losses = [step(0), step(1)]
    assert all(map(math.isfinite, losses))
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    n_threads = torch.get_num_threads()
    reference = workload.peers["torch"]()
    expected = [reference(0), reference(1)]  # the second also tells whether the weights were updated alike
    torch.set_num_threads(n_threads)
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in TIMED if name not in PER_SAMPLE])
def test_every_compiled_way_to_run_a_step_gives_the_losses_of_eager_mode(name):
    (workload,) = workloads(name)
    n_steps = 2 if name in ("mlp_large", "transformer_small", "conv_small") else 4
    losses = {}
    for peer in ("extempo", "extempo compiled", "extempo compiled module", "extempo static"):
        if peer in workload.peers:
            step = workload.peers[peer]()
            losses[peer] = [step(i % 2) for i in range(n_steps)]  # seen again, a step runs as a plan
    expected = losses["extempo"]
    assert losses == dict.fromkeys(losses, expected)


@pytest.mark.parametrize("name", PER_SAMPLE)
@pytest.mark.parametrize("peer", ["extempo batch", "extempo batch compiled"])
def test_code_written_for_one_sample_gives_batched_the_losses_of_a_loop(name, peer):
    (workload,) = workloads(name)
    loop, batched = workload.peers["extempo"](), workload.peers[peer]()
    np.testing.assert_allclose([batched(i) for i in (0, 1, 0)], [loop(i) for i in (0, 1, 0)], rtol=1e-4, atol=1e-5)


def test_hand_batched_peers_compute_what_a_loop_computes():
    pytest.importorskip("torch", reason="compares peers in PyTorch")
    by_hand = {"tree_lstm": ["hand-batched"], "ragged_batch": ["nn.LSTMCell", "nn.LSTM", "packed", "padded"]}
    for name, peers in by_hand.items():
        (workload,) = workloads(name)
        expected = workload.peers["torch"]()(0)
        for peer in peers:
            assert workload.peers[f"torch {peer}"]()(0) == pytest.approx(expected, rel=1e-4)


def test_attention_of_ragged_sequences_has_the_loss_of_padded_ones():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    n_threads = torch.get_num_threads()
    peers = load("ragged_attention").PEERS
    losses = {peer: peers[peer]()(0) for peer in peers if peer != "torch nested"}  # which warns
    torch.set_num_threads(n_threads)
    assert losses == pytest.approx(dict.fromkeys(losses, losses["torch"]), rel=1e-4)


@pytest.mark.parametrize("name", ["mlp", "lstm_step", "ragged", "encoder", "gpt"])
def test_exported_programs_give_what_the_same_models_give_in_pytorch(name):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    n_threads, n_ours = torch.get_num_threads(), ex.get_num_threads()
    inference = load("inference")
    ours, theirs = inference.with_program(name, 2, 4), inference.with_torch(name, 2, 4)
    try:
        assert [ours(i) for i in range(4)] == pytest.approx([theirs(i) for i in range(4)], rel=1e-4)
        assert ours(4) == theirs(4) == 0.0  # what is timed is not read
    finally:
        torch.set_num_threads(n_threads)
        ex.set_num_threads(n_ours)


def test_rows_with_threads_stand_beside_one_thread_and_pytorch():
    threads = load("threads")
    (measured,) = workloads("tree_lstm")
    results = [result("extempo batch", [2.0]), result("extempo batch with one thread", [4.0]), result("torch", [1.0])]
    (row,) = threads.rows_of(measured, results)
    assert row[2:] == ["2.000", "4.000", "1.000", "0.50", "1.05 pass", "2.00", "1.00 FAIL", ""]
    results[2].error = "not installed"
    (row,) = threads.rows_of(measured, results)
    assert row[-1] == "torch: not installed"


def test_it_is_said_when_cores_are_not_free():
    what_is_missing = load("threads").what_is_missing
    assert what_is_missing(2, 0.1, 2) == ""
    assert "too few cores (1 for 2 threads)" in what_is_missing(2, 0.1, 1)
    assert "not free (load 1.4 of 2)" in what_is_missing(2, 1.4, 2)


USER_PROGRAMS = re.findall(r"^    \w+\.(\w+): \d+,$", (BENCHMARKS / "programs.py").read_text(), re.M)


@pytest.mark.parametrize("name", USER_PROGRAMS)
def test_a_program_that_people_write_computes_compiled_what_it_computes_eagerly_and_in_pytorch(name):
    (workload,) = [w for w in workloads("programs") if w.name == name]
    n_steps = 2 if name == "resnet18" else 4
    eager, compiled = workload.peers["extempo"](), workload.peers["extempo compiled"]()
    losses = [eager(i % 2) for i in range(n_steps)]
    assert [compiled(i % 2) for i in range(n_steps)] == losses
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    n_threads = torch.get_num_threads()
    reference = workload.peers["torch"]()
    expected = [reference(i % 2) for i in range(n_steps)]
    torch.set_num_threads(n_threads)
    np.testing.assert_allclose(losses, expected, rtol=1e-3, atol=1e-5)


def test_the_row_of_a_program_that_people_write_has_a_floor_eager_and_compiled():
    programs = load("programs")
    measured = programs.WORKLOADS[0]
    results = [result("extempo", [3.0]), result("extempo compiled", [1.0], losses=[2.0]), result("torch", [2.0])]
    results.append(result("torch.compile", error="failed"))
    times = ["2.000", "3.000", "1.000", "-"]
    verdicts = ["1.50", "1.00 FAIL", "0.50", "1.00 pass"]
    assert programs.row(measured, results) == [measured.name, *times, *verdicts, "extempo compiled: LOSS DIFFERS"]


def test_the_row_of_a_program_has_its_floors():
    inference = load("inference")
    (measured,) = [w for w in inference.WORKLOADS if w.name == "mlp 1"]
    results = [result("extempo program", [0.01]), result("torch", [0.04]), result("onnxruntime", [0.005])]
    results.append(result("torch.compile", error="not installed"))
    cells = inference.row(measured, results)
    assert cells[:6] == ["mlp 1", "10.0", "100000", "40.0", "-", "5.0"]
    assert cells[6:] == ["0.25", "0.50 pass", "2.00", "1.20 FAIL", "torch.compile: not installed"]


def test_all_blocks_of_code_written_for_one_sample_hold_the_same_work_and_no_step_comes_twice():
    sizes = {
        "tree_lstm": lambda data: [[len(load("tree_lstm").words_of(tree)) for tree in trees] for trees in data[1]],
        "ragged_batch": lambda data: [[len(sequence) for sequence in step] for step in data[1]],
        "spinn": lambda data: [[len(words) for words in step] for step in data[1]],
        "reinforce": lambda data: [[len(noise) for noise in step] for step in data[2]],
    }
    for name in PER_SAMPLE:
        (workload,) = workloads(name)
        module = load(name)
        found = np.array(sizes[name](module.data()))
        blocks = found.reshape(module.N_BLOCKS, -1)
        assert len(set(blocks.sum(1))) == 1
        assert len({step.tobytes() for step in found}) == len(found) >= (workload.warm_up + 20) * workload.block


def gradients_of_a_row(row, peer, style="module"):
    return row.workload(4, style).peers[peer]().gradients(0)


def rows_of_any_size(module):
    known = load("per_sample").ROWS
    return [known[row.name] for row in load(f"per_sample_models.{module}").ROWS]


@pytest.mark.parametrize("module", SAMPLES_OF_ANY_SIZE)
def test_a_model_for_samples_of_any_size_has_the_gradients_of_a_loop_in_every_way_and_style(module):
    differ = load("per_sample").differ
    for row in rows_of_any_size(module):
        expected = gradients_of_a_row(row, "extempo")
        for style in ("module", *row.styles):
            for peer in ("extempo", "extempo batch", "extempo batch compiled"):
                assert not differ(gradients_of_a_row(row, peer, style), expected), (row.name, style, peer)


@pytest.mark.parametrize("module", SAMPLES_OF_ANY_SIZE)
def test_a_model_for_samples_of_any_size_is_batched_by_hand_to_the_same_gradients(module):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    n_threads = torch.get_num_threads()
    differ = load("per_sample").differ
    for row in rows_of_any_size(module):
        expected = gradients_of_a_row(row, "torch")
        assert not differ(gradients_of_a_row(row, "extempo"), expected), row.name
        assert bool(row.by_hand) != bool(row.no_hand), row.name
        if row.by_hand:
            assert not differ(gradients_of_a_row(row, "torch hand-batched"), expected), row.name
        for style in row.styles:
            assert not differ(gradients_of_a_row(row, "torch", style), expected), (row.name, style)
    torch.set_num_threads(n_threads)


def test_gradients_differ_by_norm_or_by_direction():
    differ = load("per_sample").differ
    assert not differ([[1.0, 0.5], [2.0, 0.1]], [[1.0, 0.5], [2.0, 0.1001]])
    assert differ([[1.0, 0.5], [2.0, 0.1]], [[1.0, 0.5], [2.0, 0.2]])
    assert differ([[1.1, 0.5]], [[1.0, 0.5]])


def test_a_row_is_judged_by_hand_batched_pytorch_or_else_by_its_loop():
    per_sample = load("per_sample")
    row = per_sample.ROWS["gnn"]
    peers = {"torch": 10.0, "extempo": 4.0, "extempo batch": 2.0, "extempo batch compiled": 1.0}
    results = [result(peer, [ms]) for peer, ms in peers.items()]
    found = per_sample.Measurement(row, "module", 32, [*results, result("torch hand-batched", [1.0])])
    line = dict(zip(per_sample.TIMING_HEADER, per_sample.timing_line(found), strict=True))
    assert line["batch to hand"] == "2.00 (1.00 FAIL)"
    assert line["compiled to hand"] == "1.00 (1.00 pass)"
    assert line["batch to own loop"] == "0.50 (1.05 pass)"
    found.live = {"extempo batch": 2**20, "torch hand-batched": 2**21}
    found.calls, found.steady = {"extempo": [1.0] * 20, "extempo batch": [9.0] + [1.0] * 19}, 0.25
    line = dict(zip(per_sample.COST_HEADER, per_sample.cost_line(found), strict=True))
    assert line["ratio"] == "0.50 (1.10 pass)"
    assert line["first 20 calls to loop"] == "1.40 (1.05 FAIL)"
    assert line["tenth to steady"] == "4.00 (2.00 FAIL)"
    assert (line["dearest call to loop"], line["which"]) == ("9.00 (3.00 FAIL)", "1")


def test_actions_of_a_tree_are_legal_and_leave_one_node():
    spinn = load("spinn")
    for n_words in range(2, 20):
        actions = spinn.draw_actions(np.random.RandomState(n_words), n_words)
        left, on_stack = n_words, 0
        for action in actions:
            assert spinn.legal(action, left, on_stack) == action
            left, on_stack = (left, on_stack - 1) if action == spinn.REDUCE else (left - 1, on_stack + 1)
        assert (left, on_stack, len(actions)) == (0, 1, 2 * n_words - 1)


@pytest.mark.alone
def test_what_is_counted_apart_is_not_in_the_time_of_a_step():
    clock = [0.0]

    def run(i):
        began = time.perf_counter()
        while time.perf_counter() - began < 0.02:
            pass
        clock[0] += time.perf_counter() - began
        return 1.0

    answer = load("worker").time_block(load("workload").TimedApart(run, clock), 0, 2)
    assert answer["apart"] > answer["ms"] >= 0
    text = section(result("extempo", [answer["ms"]], apart=[answer["apart"]]))
    assert re.search(r"apart: \d+\.\d+ ms", text)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # other tests' threads are no concern of the child
def test_branching_measures_rows_whose_gradients_agree():
    row = load("branching").row
    path, reads, samples, *_, ratio, mean_batch, differ = row(5, 8, own_path=False, rounds=1)
    assert (path, reads, samples) == ("common", "5", "8")
    assert float(ratio) > 0
    assert float(mean_batch) > 2
    assert float(differ) < 1e-4
    *_, ratio, mean_batch, differ = row(1, 2, own_path=True, rounds=1)
    assert "(1.10 " in ratio
    assert float(differ) < 1e-4


@pytest.mark.parametrize("number", range(7))
def test_programs_without_gain_give_compiled_what_they_give_eagerly(number):
    no_gain, lib = load("no_gain"), load("workload")
    program = no_gain.PROGRAMS[number]
    results = []
    for wrap in (lib.as_it_is, lib.whole):
        ex.manual_seed(0)
        call = program(ex, wrap)
        results.append([repr(call(i)) for i in range(6)])
    assert results[0] == results[1]
    assert min(no_gain.measure(program, n_first=2, n_blocks=1)) > 0


def test_a_treebank_is_read_as_it_is_written(tmp_path):
    sst = load("sst")
    (tmp_path / "train.txt").write_text("(3 (2 a) (4 (1 a) (2 b\u00a0c)))\n(2 (2 b\u00a0c) (0 d))\n")
    (tmp_path / "dev.txt").write_text("(1 (2 d) (0 a))\n")
    data = sst.read(tmp_path)
    first, second = data.train
    assert data.n_words == 3
    assert [node.label for node in first.nodes] == [3, 2, 4, 1, 2]
    assert [node.word for node in first.nodes if not node.children] == [1, 1, 2]
    assert [node.word for node in data.dev[0].nodes if not node.children] == [sst.UNKNOWN, 1]
    levels = sst.levels_of([first, second])
    assert levels == ([1, 1, 2, 2, 0], [([1, 3], [2, 4]), ([0], [5])], [2, 1, 2, 2, 0, 4, 2, 3], [7, 6])


def test_a_recursive_model_learns_what_the_same_model_in_pytorch_learns():
    sst = load("sst")
    data = sst.generated(n_train=60, n_dev=20, n_words=50)
    train, predict, weights = sst.with_extempo(data.n_words, seed=0)
    ours = sst.learn(train, predict, data, epochs=2, seed=0)
    assert sst.report({"extempo": [ours]}, "")[1]
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    n_threads = torch.get_num_threads()
    expected = sst.learn(*sst.with_torch(data.n_words, weights), data, epochs=2, seed=0)
    torch.set_num_threads(n_threads)
    np.testing.assert_allclose(ours.losses, expected.losses, rtol=1e-4)
    assert abs(ours.accuracy - expected.accuracy) <= 5


def test_the_model_of_a_step_says_what_more_ranks_bring():
    scaling = load("scaling")
    one = scaling.Machine(compute=0.01, n_bytes=1e6, bandwidth=1e9, latency=1e-5)
    assert one.step(1) == one.compute
    assert one.step(2) == pytest.approx(0.01 + 1e-3 + 2e-5)
    ragged = scaling.replace(one, imbalance=0.1)
    assert ragged.step(4096) > ragged.step(2) > one.step(2)
    assert scaling.replace(one, cores=2).step(4) > 2 * one.compute
    slow = scaling.replace(one, latency=1e-3)
    assert scaling.last_paying(slow) < scaling.last_paying(scaling.replace(slow, compute=0.1)) <= 4096
    assert scaling.imbalance_of(32, by_cost=True) < 0.1 * scaling.imbalance_of(32, by_cost=False)


@pytest.mark.parametrize("number", range(7))
def test_products_of_matrices_are_those_of_numpy(number):
    workload = workloads("gemm")[number]
    ours, expected = (workload.peers[peer]()(0) for peer in ("extempo", "numpy"))
    assert ours == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_all_blocks_of_a_workload_with_varying_lengths_hold_the_same_work():
    rnn = load("rnn_python_loop")
    blocks = np.reshape(rnn.lengths(np.random.RandomState(0)), (rnn.N_BLOCKS, rnn.BLOCK))
    assert len(set(blocks.sum(1))) == 1
    assert (blocks.min(), blocks.max()) == (5, 50)
    assert any(sorted(blocks[0]) != sorted(block) for block in blocks[1:])


def test_all_blocks_of_early_exit_hold_inputs_of_the_same_norms():
    early = load("early_exit")
    norms = np.reshape([np.linalg.norm(x) for x in early.data()[1]], (early.N_BLOCKS, early.BLOCK))
    np.testing.assert_allclose(np.sort(norms, 1), np.sort(norms, 1)[:1].repeat(early.N_BLOCKS, 0), rtol=1e-5)


def test_the_timed_steps_of_varying_workloads_see_other_data_than_the_warm_up():
    for name, batches in (("rnn_python_loop", 1), ("early_exit", 1)):
        module = load(name)
        inputs = [x.tobytes() for x in module.data()[batches]]
        n_rounds = 20  # what run.py does unless told otherwise
        assert len(inputs) >= (n_rounds + 2) * module.BLOCK
        assert len(set(inputs)) == len(inputs)


def section(*results, floor=0.5, compiled_floor=None):
    workload = load("workload").Workload("some", "About it.", 4, {}, floor, compiled_floor)
    return load("report").section(workload, results, rounds=2)


def test_a_table_judges_the_floor_by_the_ratio_of_minima():
    fast, slow = result("extempo", [1.0, 9.0]), result("extempo", [3.0, 3.0])
    base = result("torch", [4.0, 5.0])
    assert "0.50 pass" in section(fast, base)
    assert "0.50 FAIL" in section(slow, base)
    assert "pass" not in section(fast)  # nothing to compare with


def test_a_table_judges_compiled_steps_by_their_own_floor_and_modules_by_the_compiled_step():
    base, compiled = result("torch", [4.0]), result("extempo compiled", [1.0])
    assert "0.30 pass" in section(compiled, base, compiled_floor=0.3)
    assert "0.20 FAIL" in section(compiled, base, compiled_floor=0.2)
    assert "0.38 pass" in section(compiled, result("extempo compiled module", [1.4]), base)
    assert "0.38 FAIL" in section(compiled, result("extempo compiled module", [1.6]), base)


def test_a_table_compares_compiled_steps_with_eager_and_static_ones():
    eager, compiled = result("extempo", [1.0]), result("extempo compiled", [1.04], n_recorded=100)
    assert "relative to eager: 1.04 (1.05 pass)" in section(eager, compiled)
    assert "relative to eager: 2.00 (1.05 FAIL)" in section(eager, result("extempo compiled", [2.0]))
    assert "relative to static: +0.40 us/op (1.00 pass)" in section(compiled, result("extempo static", [1.0]))
    assert "relative to static: +1.40 us/op (1.00 FAIL)" in section(compiled, result("extempo static", [0.9]))
    long = result("extempo compiled", [10.8])
    assert "relative to static: 1.08 (1.05 FAIL)" in section(long, result("extempo static", [10.0]))
    assert "Compiled relative" not in section(eager)


def test_the_summary_tells_code_written_for_one_sample_from_the_rest():
    make = load("workload").Workload
    results = [result("extempo", [1.0]), result("extempo batch", [0.2]), result("extempo batch compiled", [0.08])]
    per_sample = make("trees", "", 4, {}, batch_floor=0.045), [*results, result("torch", [2.0])]
    text = load("report").summary([per_sample])
    header, _, row = ([cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:5])
    assert dict(zip(header, row, strict=True))["batch ratio"] == "0.10"
    assert row[-5:-1] == ["0.10", "0.045 FAIL", "0.040", "0.045 pass"]
    assert load("report").summary([per_sample, (make("some", "", 4, {}), [results[0]])]).count("| workload") == 2


def test_the_summary_has_a_row_per_workload_whatever_peers_it_has():
    make = load("workload").Workload
    results = [result("extempo", [1.0]), result("extempo compiled", [0.5]), result("torch", [2.0])]
    text = load("report").summary([(make("some", "", 4, {}, 0.6, 0.3), results)])
    header, _, row = ([cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:5])
    found = dict(zip(header, row, strict=True))
    assert (found["eager ratio"], found["compiled ratio"], found["compiled to eager"]) == (
        "0.50",
        "0.25",
        "0.50 (1.05 pass)",
    )


@pytest.mark.parametrize("loss", [1.1, math.nan])
def test_a_table_says_when_losses_differ(loss):
    base = result("torch", [1.0])
    assert "LOSS DIFFERS" not in section(result("extempo", [1.0], [1.0001]), base)
    assert "LOSS DIFFERS" in section(result("extempo", [1.0], [loss]), base)


def test_a_table_tells_no_native_backend_from_no_fallbacks():
    def cell(**more):
        return section(result("extempo", [1.0], **more)).splitlines()[6].split("|")[8].strip()

    assert cell(backend="numpy") == "all"
    assert cell(backend="native") == "0"
    assert cell(backend="native", fallbacks={"sort": 1.0, "cumsum": 2.0}) == "3 (cumsum 2, sort 1)"


def test_peers_are_chosen_by_name_or_by_how_they_begin():
    choose = load("run").choose
    peers = ["extempo", "torch", "torch fused Adam", "jax.jit scan", "jax.jit padded", "dynet"]
    assert choose(peers, None) == peers
    assert choose(peers, "torch") == ["extempo", "torch"]
    own = ["extempo", "extempo compiled", "extempo compiled module", "extempo static"]
    assert choose([*own, "torch", "dynet"], "torch") == [*own, "torch"]
    assert choose(peers, "dynet,jax") == ["extempo", "torch", "jax.jit scan", "jax.jit padded", "dynet"]


def test_writing_replaces_what_stands_between_the_markers_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- gemm -->\nold\n<!-- end of gemm -->\nb\n<!-- memory -->\nkept\n<!-- end of memory -->\n")
    for text in (r"new \1", "newer"):
        load("report").write("gemm", text, page)
        kept = "b\n<!-- memory -->\nkept\n<!-- end of memory -->\n"
        assert page.read_text() == f"a\n<!-- gemm -->\n\n{text}\n\n<!-- end of gemm -->\n{kept}"
    with pytest.raises(SystemExit, match="no place for lines"):
        load("report").write("lines", "text", page)


def test_the_page_has_a_place_for_every_table():
    names = re.findall(r"^<!-- (?!end of)(\w+) -->$", (ROOT / "docs" / "performance.md").read_text(), re.M)
    assert names == ["summary", *TIMED, *load("run").OWN_TABLES, "threads"]


def test_the_first_step_from_which_we_are_ahead_to_the_end():
    ahead_from = load("cold").ahead_from
    assert ahead_from([1.0, 2.0], [2.0, 3.0]) == "1"
    assert ahead_from([3.0, 3.5, 4.0, 4.5], [1.0, 4.0, 3.0, 5.0]) == "4"
    assert ahead_from([3.0, 4.0], [1.0, 2.0]) == "not within 2"


def test_the_worst_call_and_the_steady_state_are_those_of_the_calls_compared():
    lengths = load("lengths")
    n = lengths.N_PASSES
    compiled, even = np.ones((2 * n, 2)), np.full((2 * n, 2), 0.5)
    compiled[3], compiled[-2 * lengths.N_STEADY :] = 8.0, 0.25
    compiled[0, 0] = 9.0  # with the collector
    phase = lengths.Phase([5, 6] * n, even, compiled, 0.1, 0.2, 0.3, {"plans": [3, 4, 0]})
    assert phase.worst == (16.0, 18.0, 2, 6)
    assert phase.steady == 0.5
    quieter = phase.least(lengths.Phase(phase.lengths, phase.eager, even, 0.1, 0.2, 0.3, {}))
    assert quieter.worst[0] == 1.0
    assert lengths.cache_row("plans", [phase, phase]) == ["plans", "3", "3", "4", "0", "pass"]


def test_a_random_program_is_the_same_whenever_it_is_drawn():
    draw = load("random_programs").draw
    assert draw(3, 4) == draw(3, 4)
    assert draw(3, 4).text != draw(3, 5).text
    features = {feature for number in range(60) for feature in draw(0, number).features}
    assert features >= {"gradients", "loops", "changing loops", "never repeats", "reads", "writes", "many sizes"}


def run_random_program(lib, program, compiled=False):
    """What every call returned and read, and the weights after them."""
    state, function = program.state(lib), program.compiled_text()
    if compiled:
        function = lib.compile(function)
    found = []
    for k in (0, 1, 0, 1, 2, 0):  # some come again, so that they run as plans
        x, index = map(lib.from_numpy, program.inputs(k))
        lib.manual_seed(k)
        found += [*(t.detach().numpy() for t in function(lib, state, x, index, k)), state.seen]
    return [*found, *(w.detach().numpy() for w in state.weights)]


@pytest.mark.parametrize("number", range(24))
def test_a_random_program_computes_the_same_compiled_as_eager(number):
    program = load("random_programs").draw(7, number)
    eager = run_random_program(ex, program)
    compiled = run_random_program(ex, program, compiled=True)
    for ours, expected in zip(compiled, eager, strict=True):
        np.testing.assert_array_equal(ours, expected, err_msg=program.text)


def test_random_programs_run_on_pytorch_too():
    torch = pytest.importorskip("torch", reason="runs on PyTorch")
    for number in range(12):
        program = load("random_programs").draw(7, number)
        assert [np.shape(a) for a in run_random_program(torch, program)] == [
            np.shape(a) for a in run_random_program(ex, program)
        ]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # other tests' threads are no concern of the child
def test_a_program_that_ends_its_process_or_raises_is_told_from_one_that_answers():
    forked = load("adversary").forked
    assert forked(lambda: {"ratio": 1.0}) == {"ratio": 1.0}
    assert forked(lambda: 1 / 0)["error"].startswith("ZeroDivisionError: division by zero")
    assert forked(lambda: os._exit(3))["error"] == "the process ended with status 3"


def test_a_random_program_for_one_sample_is_the_same_whenever_it_is_drawn():
    draw = load("random_samples").draw
    assert draw(3, 4) == draw(3, 4)
    assert draw(3, 4).text != draw(3, 5).text
    drawn = [draw(0, number) for number in range(80)]
    assert {feature for one in drawn for feature in one.features} == {"branches", "draws", "loops", "reads"}
    assert {0, 1} <= {one.smallest for one in drawn}
    sizes = [len(sample[0]) for sample in drawn[0].samples(ex, 0)]
    assert drawn[0].smallest <= min(sizes) <= max(sizes) <= drawn[0].largest


@pytest.mark.parametrize("kind", ["same", "other", "vector", "turned", "column", "loss"])
def test_every_expression_of_a_random_program_for_one_sample_has_the_shape_that_others_rely_on(kind):
    drawing = load("random_samples")
    program = drawing.replace(drawing.draw(0, 0), smallest=5, largest=9, n_samples=2, width=8)
    state = program.state(ex)
    words = {"a": "x", "b": "(0.5 * x)", "p": "y", "q": "x.mean(1)", "v": "x[0]", "z": "y[1]", "c": "0.7", "k": 2}
    for text in drawing.EXPRESSIONS[kind]:
        expression = text.format(**words, d=8, h=4)
        line = f"def sample({', '.join(drawing.ARGUMENTS)}):\n    return {expression}\n"
        function = drawing.replace(program, text=line).function(ex, state)
        for x, y, index, numbers, _, number in program.samples(ex, 0):
            shape = tuple(function(x, y, index, numbers, [[x[0]], []], number).shape)
            n, rows = len(x), shape[:1]
            expected = {"same": (n, 8), "other": (*rows, 8), "column": (n,), "loss": ()}.get(kind, (8,))
            assert shape == expected, text


@pytest.fixture
def _every_call_is_batched():
    policy = importlib.import_module("extempo.tracing.policy")
    before = policy.choose(policy.AlwaysPlan)
    yield
    policy.choose(before)


@pytest.mark.usefixtures("_every_call_is_batched")
@pytest.mark.parametrize("number", range(40))
def test_a_random_program_for_one_sample_gives_batched_what_a_loop_gives(number):
    adversary = load("sample_adversary")
    program = adversary.draw(20, number)
    program = adversary.replace(program, n_samples=min(8, program.n_samples))
    found = adversary.compared(program, n_calls=2)
    assert "differs" not in found, f"{found['differs']}\n{program.text}"


@pytest.mark.usefixtures("_every_call_is_batched")
def test_the_adversary_of_batches_sees_other_values_gradients_and_errors(monkeypatch):
    adversary = load("sample_adversary")
    program = adversary.replace(adversary.draw(0, 0), smallest=2, largest=5, n_samples=4, double=False)
    batch = ex.batch

    def text(*lines):
        return adversary.replace(program, text="\n    ".join(["def sample(x, *rest):", *lines]) + "\n")

    def changed_by(change):
        return lambda fn, debug=False: batch(fn if debug else lambda *sample: change(fn(*sample)), debug)

    for change, said in (
        (lambda found: [1.5 * found[0]], "result 0 differs"),
        (lambda found: [found[0].detach()], "gradient of "),
        (lambda found: [found[0][:1]], "result 0: float32 (1, "),
        (lambda found: found[9], "raises IndexError"),
    ):
        monkeypatch.setattr(ex, "batch", changed_by(change))
        assert said in adversary.compared(text("return [lib.tanh(x @ s.w)]"), n_calls=1)["differs"]
    monkeypatch.setattr(ex, "batch", batch)
    assert adversary.compared(text("return [x[9]]"), n_calls=2) == {"raises": True}
    assert adversary.compared(text("return [x[-1]]"), n_calls=2) == {"raises": False}


def test_a_program_that_differs_is_shrunk_to_the_lines_that_make_it_differ(monkeypatch):
    adversary = load("sample_adversary")
    lines = ["def sample(x, *rest):", "a = x + 1", "b = lib.tanh(x)", "if len(x):", "    c = a * b", "return [a, b]"]
    program = adversary.replace(adversary.draw(0, 0), text="\n    ".join(lines) + "\n", n_samples=8)

    def compared(program):
        return {"differs": "somewhere"} if "tanh" in program.text and "b]" in program.text else {}

    monkeypatch.setattr(adversary, "always", lambda work: work())
    monkeypatch.setattr(adversary, "compared", compared)

    found = adversary.shrunk(program)
    assert found.text == "def sample(x, *rest):\n    b = lib.tanh(x)\n    return [b]\n"
    assert found.n_samples == 1


PEERS_IN_TROUBLE = """
import os
from workload import Workload

def raises():
    raise ValueError("no such weights")

def dies_at_its_second_block():
    return lambda i: 1.0 if i < 2 else os._exit(3)

def absent():
    import nosuchlibrary

peers = {
    "math": lambda: lambda i: print("noise") or 1.0,
    "math raises": raises,
    "math dies": dies_at_its_second_block,
    "nosuchlibrary": absent,
    "elsewhere": absent,
}
WORKLOADS = [Workload("trouble", "", 2, peers)]
"""


def test_a_peer_in_trouble_gets_a_row_that_says_so_and_the_others_go_on(tmp_path, monkeypatch):
    (tmp_path / "trouble.py").write_text(PEERS_IN_TROUBLE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("EXTEMPO_BENCH_PYTHON_ELSEWHERE", str(tmp_path / "python"))
    interleave = load("interleave")
    (workload,) = workloads("trouble")
    with interleave.started("trouble", list(workload.peers)) as processes:
        results = {found.peer: found for found in interleave.measure(workload, processes, rounds=3)}
    errors = {peer: found.error for peer, found in results.items()}
    assert errors["math"] == ""
    assert len(results["math"].times) == 3
    assert errors["math raises"] == "failed: ValueError: no such weights"
    assert errors["math dies"].startswith("failed: ")
    assert errors["nosuchlibrary"] == "not installed"
    assert errors["elsewhere"].startswith("not installed: there is no ")
    assert section(*results.values()).count("failed: ") == 2
    del sys.modules["trouble"]


def test_the_command_prints_a_table_without_pytorch():
    environment = {**os.environ, "EXTEMPO_BENCH_PYTHON_TORCH": str(ROOT / "no" / "python")}
    command = [sys.executable, str(BENCHMARKS / "run.py"), "op_overhead", "--peers", "numpy", "--rounds", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = {line.split("|")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("| ")}
    assert float(rows["extempo"].split("|")[2]) > 0
    assert float(rows["numpy"].split("|")[2]) > 0
    assert "not installed" in rows["torch"]


def test_the_command_refuses_a_workload_that_it_does_not_have():
    command = [sys.executable, str(BENCHMARKS / "run.py"), "mlp_smal"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no workload mlp_smal; choose from op_overhead" in done.stderr


def test_the_load_test_of_the_server_runs_and_loses_no_request():
    pytest.importorskip("uvicorn", reason="the server needs the extra serve")
    command = [sys.executable, BENCHMARKS / "serving.py", "--clients", "4", "--requests", "24", "--rounds", "1"]
    done = subprocess.run([*command, "--hostile", "70"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "one by one",
        "padding",
        "ragged",
        "; 0 lost",
        "Hostile: 70 requests",
        "GFLOP/s",
        "onnxruntime",
        "in the model",
    ):
        assert text in done.stdout, text


def test_every_op_and_every_layer_is_swept_or_says_why_not():
    from extempo.core.op import REGISTRY

    ops, layers = load("every_op_cases"), load("every_op_layers")
    cases = [*ops.every_op(), *layers.every_layer()]
    names = {case.name for case in cases}
    assert len(names) == len(cases)
    assert set(ops.INSIDE.values()) <= names
    covered = {*names, *(name.partition(" over ")[0] for name in names), *ops.INSIDE, *ops.NOT_MEASURED}
    defined = {name for name, op in REGISTRY.items() if op.__module__.startswith("extempo.")}
    assert defined <= covered
    assert {*ops.INSIDE, *ops.NOT_MEASURED} <= REGISTRY.keys()
    modules = {
        name for name, found in vars(ex.nn).items() if isinstance(found, type) and issubclass(found, ex.nn.Module)
    }
    assert {n for n in modules if not n.startswith("Lazy")} <= names | layers.LAYERS_NOT_MEASURED.keys()


def test_the_sweep_measures_what_was_asked_for_and_prints_what_is_slow(capsys):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    n_threads, sweep = torch.get_num_threads(), load("every_op")
    options = ["cumsum over ?", "Linear", "--size", "tiny", "--dtype", "float32,int64", "--layout", "permuted", "--all"]
    try:
        sweep.main(options)
    finally:
        torch.set_num_threads(n_threads)
    printed = capsys.readouterr().out
    assert "cumsum over 0 backward, float32, tiny, permuted" in printed
    assert "cumsum over 1 forward, int64, tiny, permuted" in printed
    assert "9 of 9 rows, 1 of them without a result in PyTorch" in printed  # a layer of whole numbers
    with pytest.raises(SystemExit):
        sweep.main(["no_such_op"])


def test_the_report_of_the_sweep_has_the_worst_row_first_and_the_floor():
    pytest.importorskip("torch", reason="names its version")
    sweep, (case, *_) = load("every_op"), load("every_op_cases").every_op()
    rows = [sweep.Row(case, "forward", "float32", size, "contiguous") for size in ("tiny", "middle", "large")]
    found = [sweep.Measured(row, ours, 1e-6) for row, ours in zip(rows, (1.5e-6, 3e-6, 1e-7), strict=True)]
    found[0].kernels = {"relu": 1}
    text = sweep.section_of([*found, None], 4)
    lines = [line for line in text.splitlines() if line.startswith(f"| {case.name} forward")]
    assert [line.split(",")[2].strip() for line in lines] == ["middle", "tiny"]
    assert "relu 1" in lines[1]
    assert "FAIL" in text
    assert "pass" in sweep.section_of([found[2]], 1)
