"""What a part loads when it is imported: nothing heavy before it is needed."""

import subprocess
import sys

import pytest

HEAVY = ["torch", "galois", "ray", "numba", "scipy", "matplotlib", "pandas", "transformers", "gradio"]


@pytest.mark.parametrize("part", ["information", "distribution", "order", "engine", "information.measures"])
def test_importing_a_part_of_the_core_loads_nothing_heavy(part):
    code = f"import sys, unmask.{part}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_field_and_a_special_function_are_loaded_when_they_are_needed():
    code = """
import sys
from unmask.distribution import Markov, Parity
law = Parity(4)
assert "galois" not in sys.modules and "scipy" not in sys.modules
law.sample(2, rng=0)
assert "galois" in sys.modules
print(round(Markov.sticky(2, 0.75, 3).curve().entropy, 4))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1.8178"
