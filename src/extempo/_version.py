"""The version, written here and nowhere else: the build reads this file, the package and the command line import it."""

__version__ = "0.1.0"
