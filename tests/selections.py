"""Which tests `pytest` leaves to `.ci/run` (`SLOW`) and which are the 20 seconds of `pytest -m tiny` (`TINY`).

An entry is a file, or a file and a function with all its parameters. `tests/test_selections.py` says when one is gone.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
QUICK = "not slow and not alone"  # pyproject.toml has it as the default of -m
MANY_FILES = 20  # from here on, processes are worth the seconds in which each of them collects
N_COLLECTED = pytest.StashKey[int]()  # how many tests were found, before -m and -k chose
MOST_PROCESSES = 8  # each has its own kernels and arrays in memory

# By what a run of all took, in seconds of one core: these took two thirds of it.
SLOW = frozenset(
    f"tests/{name}"
    for name in (
        # Whole comparisons: warm-up and at least seven rounds of every mode.
        "comparing/test_calling.py",
        "comparing/test_changes.py::test_figures_are_saved_and_compared_with_later_ones",
        "comparing/test_leaks.py",
        "comparing/test_measuring.py",
        "comparing/test_reports.py::test_the_report_fits_80_columns_and_opens_with_time_memory_and_flexibility",
        "cli/test_compare_command.py",
        # Every op in every order, and every op between others.
        "fuzz/test_first_call.py::test_no_op_depends_on_what_ran_before",
        "backends/llvm/test_history.py::test_every_op_gives_the_same_bits_in_every_way",
        "ops/test_memory_bounds.py::test_kernels_touch_nothing_around_what_they_are_given",
        "test_numpy_mode.py::test_all_aspects_of_every_third_op_agree_on_numpy_kernels",
        "tracing/static/test_every_op.py::test_an_op_between_others",
        "tracing/static/test_random_programs.py::test_random_programs_agree",
        "tracing/test_every_op_compiled.py::test_an_op_between_others",
        # Every op, layer and form of a call beside PyTorch.
        "conformance/test_argument_forms.py",
        "conformance/test_error_inputs.py",
        "conformance/test_module_db.py",
        "conformance/test_op_db.py",
        "serialization/test_torch_programs.py",
        # Functions compiled whole, most of them with kernels of their own.
        "tracing/static/test_backwards.py",
        "tracing/static/test_effects.py",
        "tracing/static/test_guards.py",
        "tracing/static/test_modules.py",
        "tracing/static/test_python_codegen.py",
        "tracing/static/test_guard_codegen.py",
        "tracing/static/test_plan_script.py",
        "tracing/static/test_provenance.py",
        "tracing/static/test_script_cost.py",
        "tracing/static/test_static_function.py",
        "tracing/static/test_streams.py",
        "tracing/static/test_sym_numbers.py",
        "tracing/static/test_tracer.py",
        "tracing/test_odd_moves.py::test_an_odd_move",
        "test_benchmarks.py::test_a_program_that_people_write_computes_compiled_what_it_computes_eagerly_and_in_pytorch",
        # A browser, and whole programs beside it.
        "studio_server/page/test_page.py",
        # Every text compiled twice.
        "backends/llvm/test_arm64.py::test_what_the_demo_and_the_tiny_tests_ask_for_is_emitted_for_arm64",
        # The collector at every allocation.
        "backends/llvm/calls/test_segment.py::test_finalizers_wherever_the_collector_runs",
        # Much of everything: samples, objects, files, structures, modules in every order.
        "batching/test_open_run.py::test_a_sample_that_lasts_does_not_keep_the_values_of_others",
        "batching/test_open_run.py::test_memory_stays_flat_over_many_samples_that_overlap",
        "batching/test_open_run.py::test_results_do_not_depend_on_generations",
        "serialization/test_header.py::test_a_file_has_a_bounded_number_of_tensors",
        "serialization/test_objects.py::test_a_chain_of_objects_may_be_long",
        "test_init.py::test_modules_import_in_any_order_and_leave_the_same_names",
        "tracing/test_eviction.py::test_all_is_forgotten_where_too_much_repeats",
        # mypy on a program.
        "test_typing.py::test_results_of_compiled_functions_and_of_methods_have_types",
        # Functions of mathematics over their whole range.
        "backends/llvm/lanes/test_vector_math.py::test_the_error_stays_small_over_the_whole_range",
        # Pages that train or compare.
        "test_docs.py::test_the_four_hunts_run_as_pasted_and_draw_the_pictures_of_the_page",
        "test_docs.py::test_the_page_on_comparing_runs_as_pasted",
        "test_docs.py::test_the_page_on_export_runs_as_pasted_and_shows_what_it_prints",
        "test_docs.py::test_the_page_on_looking_inside_runs_as_pasted_and_shows_what_it_prints",
        "test_docs.py::test_the_page_on_metrics_runs_as_pasted_and_shows_what_it_prints",
        "test_docs.py::test_the_page_on_ragged_tensors_runs_as_pasted_and_shows_what_it_prints",
        "test_docs.py::test_the_page_on_training_runs_as_pasted",
        "test_docs.py::test_the_page_for_users_of_pytorch_finds_no_difference",
        # Programs that train.
        "cli/test_demo.py::test_the_same_seed_gives_the_same_numbers_and_another_one_others",
        "test_mistakes.py::test_the_trainer_warns_of_graphs_that_are_kept",
        "test_examples.py::test_an_example_runs_and_learns",
        "test_benchmarks.py::test_a_model_for_samples_of_any_size_has_the_gradients_of_a_loop_in_every_way_and_style",
        "test_benchmarks.py::test_a_random_program_for_one_sample_gives_batched_what_a_loop_gives",
        "test_benchmarks.py::test_code_written_for_one_sample_gives_batched_the_losses_of_a_loop",
        "test_benchmarks.py::test_every_compiled_way_to_run_a_step_gives_the_losses_of_eager_mode",
        "test_benchmarks.py::test_programs_without_gain_give_compiled_what_they_give_eagerly",
        "test_benchmarks.py::test_the_command_prints_a_table_without_pytorch",
        "test_benchmarks.py::test_the_load_test_of_the_server_runs_and_loses_no_request",
        "cli/test_demo_training.py::test_five_epochs_reach_85_percent_on_held_out_sequences",
    )
)

# Every room once, without what is slow or must run alone in these files: what fails here fails everywhere.
_TINY_FILES = frozenset(
    f"tests/{name}.py"
    for name in (
        *("test_tiny", "test_masked", "test_nested", "test_random", "test_selections"),
        *("core/test_tensor", "core/test_printing", "symbolic/test_affine"),
        *("backends/llvm/test_native", "backends/llvm/ir/test_machine", "backends/llvm/routines/test_gemm"),
        *("dispatch/test_dispatcher", "dispatch/test_inplace"),
        *("ops/test_elementwise", "ops/test_reduce", "ops/test_contraction", "ops/test_conv", "ops/test_index"),
        *("ops/test_view", "ops/test_sorting", "ops/test_softmaxes", "ops/test_loss", "ops/test_normalization"),
        *("ops/test_recurrence", "ops/test_draws", "autograd/test_api"),
        *("scheduling/test_fusion", "scheduling/test_pipeline"),
        *("ragged_tensors/test_creation", "ragged_tensors/test_layers", "func/test_transforms"),
        *("nn/test_module", "nn/test_containers", "nn/test_layers_shapes", "optim/test_sgd", "optim/test_adam"),
        *("data/test_loader", "distributions/test_discrete", "amp/test_autocasting", "signal/test_windows"),
        *("serialization/test_saving", "serialization/test_loading", "compat/test_settings"),
        *("train/test_trainer", "metrics/test_reporting", "inspect/test_summaries", "comparing/test_verdicts"),
        *("profiling/test_call_tree", "learn/test_reading", "distributed/test_engine", "studio_server/test_gate"),
        *("cli/test_environment", "cli/test_op_table"),
    )
)
_TINY_TESTS = frozenset(
    f"tests/{name}"
    for name in (
        "batching/test_api.py::test_an_interpreter_of_programs",
        "batching/test_api.py::test_arguments",
        "batching/test_api.py::test_outputs_of_any_structure",
        "batching/test_api.py::test_plain_ops_are_batched_too",
        "cli/test_demo.py::test_json_has_every_stage",
        "compat/torch_namespace/test_running.py::test_the_exit_status_is_the_programs",
        "serving/test_runners.py::test_a_sample_with_nan_leaves_the_others_as_they_are",
        "exporting/test_building.py::test_weights_have_the_names_of_the_model",
        "exporting/test_control_flow.py::test_cond_runs_one_branch_and_its_gradient",
        "exporting/test_source_control.py::test_a_module_with_a_loop_over_time_runs_at_every_length",
        "memory/test_referrers.py::test_tensors_are_known_as_such",
        "tracing/test_api.py::test_a_compiled_module_is_a_module",
        "tracing/test_api.py::test_a_function_that_settles_down_is_planned_again",
        "tracing/test_api.py::test_eager_steps_aside",
        "tracing/test_api.py::test_methods_and_callables",
    )
)
TINY = _TINY_FILES | _TINY_TESTS


def names_of(node_id: str) -> set[str]:
    """The entries that would mean a test: its file, and its function with all parameters."""
    function = node_id.partition("[")[0]
    return {function, function.partition("::")[0]}


def is_among(node_id: str, selection: frozenset[str]) -> bool:
    """Whether the selection has the test, by its file or its function."""
    return not selection.isdisjoint(names_of(node_id))


def files_asked_for(arguments: list[str]) -> list[Path]:
    """The test files that the arguments of pytest mean: files, directories and single tests."""
    paths = [Path(argument.partition("::")[0]) for argument in arguments]
    return [file for path in paths for file in (path.rglob("test_*.py") if path.is_dir() else [path])]


def are_named_one_by_one(arguments: list[str]) -> bool:
    """Whether files or tests are asked for by name, and no directory: then all that they have is to run."""
    return bool(arguments) and not any(Path(argument.partition("::")[0]).is_dir() for argument in arguments)


def n_processes(arguments: list[str], expression: str, n_cores: int) -> int:
    """How many processes such a run is spread over; 0: it stays in this one, as what must run alone does."""
    if expression != QUICK or n_cores < 2 or len(files_asked_for(arguments)) < MANY_FILES:
        return 0
    return min(n_cores, MOST_PROCESSES)


def n_usable_cores() -> int:
    """The cores that this process may run on, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def mark(items: list[pytest.Item]) -> None:
    """Give every test the markers of the selections that have it."""
    for item in items:
        if is_among(item.nodeid, SLOW):
            item.add_marker("slow")
        elif is_among(item.nodeid, TINY) and not any(item.get_closest_marker(name) for name in ("alone", "slow")):
            item.add_marker("tiny")
