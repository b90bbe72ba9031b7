"""Modules whose engine or page is not installed are none to collect doctests from."""

from importlib.util import find_spec

ENGINES = {"compare": "lm_eval", "diffusers": "diffusers", "dllm": "dllm", "harness": "lm_eval", "sglang": "sglang"}

collect_ignore = [f"src/unmask/adapters/{module}.py" for module, engine in ENGINES.items() if find_spec(engine) is None]
if find_spec("gradio") is None:
    collect_ignore += [f"src/unmask/app/{module}" for module in ("fields.py", "page.py", "tabs")]
