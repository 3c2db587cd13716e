"""ex.compile(..., static=True): the first call becomes a script of actions; later calls repeat it without the body."""

from .calling import make as make
