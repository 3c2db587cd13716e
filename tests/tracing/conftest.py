"""Functions here are traced in every call and planned at the second sighting, however little that pays.

Static ones run by plans; `static.static_agreement` makes them run op by op, too.
"""

import pytest


@pytest.fixture(autouse=True)
def _always_planned(always_planned):
    pass
