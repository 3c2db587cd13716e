"""What programs print about how the library was built."""

from __future__ import annotations

import extempo as ex
from extempo.compat.torch_namespace import config


def test_the_backend_and_versions_are_shown():
    assert f"Extempo {ex.__version__}" in config.show()
    assert "CPU kernels" in config.show()


def test_the_number_of_threads_is_shown():
    assert str(ex.get_num_threads()) in config.parallel_info()
