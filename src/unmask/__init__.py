"""Unmasking schedules for masked diffusion language models: design, verify, run."""

__version__ = "0.1.0"
