"""The scheduler that people trust to wake their AI agents."""

__version__ = "0.1.0"
