"""Nothing to steer: what is asked of `torch.compiler` is true without doing anything."""

from __future__ import annotations

import extempo as ex
from extempo.compat.torch_namespace import compiler


def test_functions_stay_themselves_and_nobody_is_compiling():
    assert compiler.allow_in_graph(len) is len
    assert not compiler.is_compiling()
    compiler.mark_dynamic(ex.ones(2), 0)
    compiler.config.suppress_errors = True


def test_a_disabled_function_runs_eagerly_in_a_compiled_one():
    seen = []

    def look(x):
        seen.append(x._source is None)
        return x * 2

    for disabled in (compiler.disable(look), compiler.disable()(look)):
        step = ex.compile(lambda x, disabled=disabled: disabled(x))
        for _ in range(3):
            assert step(ex.ones(2)).tolist() == [2.0, 2.0]
    assert all(seen)
    compiler.reset()


def test_what_would_steer_torch_compile_steps_aside():
    with compiler.set_stance("force_eager"):
        assert compiler.nested_compile_region(len) is len
    assert compiler.set_stance("default")(len)([1]) == 1
    assert compiler.substitute_in_graph(len)(sum) is sum
    assert compiler.list_backends() == []
    assert compiler.save_cache_artifacts() is compiler.load_cache_artifacts(b"") is compiler.set_default_backend("x")
