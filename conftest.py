"""Adapters whose engine is not installed are no modules to collect doctests from."""

from importlib.util import find_spec

ENGINES = {"algorithm": "sglang", "harness": "lm_eval", "sampler": "dllm", "scheduler": "diffusers"}

collect_ignore = [f"src/unmask/adapters/{module}.py" for module, engine in ENGINES.items() if find_spec(engine) is None]
