"""The version, which is defined in this file only."""

__version__ = "0.1.0"
