"""ex.compile(..., static=True): the first call becomes a script of actions; later calls repeat it without the body."""

from .static_function import make as make
