"""Compiled loops: made when they are called, the same without numba."""

import subprocess
import sys
import textwrap

import numpy as np

from unmask._compiled import compiled


@compiled
def double(values):
    """Twice the values."""
    result = np.zeros(values.size)
    for i in range(values.size):
        result[i] = 2 * values[i]
    return result


@compiled
def fourfold(values):
    return double(double(values))


def test_a_compiled_function_may_call_another_of_its_module():
    assert fourfold(np.array([1.0, 2.0])).tolist() == [4.0, 8.0]
    assert double(np.array([1.0])).tolist() == [2.0]


def test_a_compiled_function_keeps_its_name_and_says_what_it_does():
    @compiled
    def local(value):
        """One more."""
        return value + 1

    assert (local.__name__, local.__doc__) == ("local", "One more.")
    assert [local(1), local(2)] == [2, 3]


def run(code):
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_numba_and_scipy_are_imported_when_they_are_needed():
    heavy = run(
        """
        import sys
        import unmask.bounds, unmask.evaluate.exact, unmask.schedule, unmask.size
        unmask.size.Even(3).overhang(8)
        print([name for name in ("numba", "scipy", "torch", "galois") if name in sys.modules])
        unmask.size.TC(3).draw(8, rng=0)
        print("numba" in sys.modules)
        """
    )
    assert heavy.splitlines() == ["[]", "True"]


def test_results_are_the_same_without_numba():
    code = """
        import sys
        {without}
        from unmask import gauge, size
        curve = __import__("unmask").Curve([1.0, 0.8, 0.3, 0.2, 0.0])
        kinds = [size.TC(3), size.Minimax(3, gauge.tc), size.LogLinear(3), size.Optimal(3, curve)]
        for kind in kinds:
            print(kind.draw(5, rng=1, count=4).tolist(), kind.overhang(5).tolist())
        """
    plain = run(code.format(without="sys.modules['numba'] = None"))
    assert plain == run(code.format(without=""))
