"""A package of others that is missing, of another version, or broken inside: three sentences, for every engine."""

import importlib
import sys
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from unmask._packages import Package  # noqa: E402


@dataclass(frozen=True)
class Engine:
    """Who asks for a package, and what the sentences say of it.

    `parts` are the modules that we import from, and the last of them lacks `name`, which `names` stand before; `ask` is
    our function that imports it, where importing our module does not.
    """

    ours: str
    title: str
    module: str
    remedy: str
    versions: str
    name: str
    parts: tuple[str, ...] = ()
    names: str = ""
    ask: str = "_library"


ENGINES = [
    Engine(
        "unmask.adapters.diffusers", "diffusers", "diffusers", 'Run: pip install "unmask[diffusers]"',
        "0.38.0 to 0.42.1", "diffusers.BlockRefinementScheduler",
    ),
    Engine(
        "unmask.adapters.harness", "lm-evaluation-harness", "lm_eval", 'Run: pip install "unmask[harness]"',
        "0.4.10 to 0.4.13", "lm_eval.api.registry.register_model",
        ("lm_eval.api", "lm_eval.api.model", "lm_eval.api.registry"), "LM = object",
    ),
    Engine(
        "unmask.adapters.sglang", "SGLang", "sglang", 'Run: pip install "unmask[sglang]"',
        "0.5.21 to 0.5.23", "sglang.srt.dllm",
        ("sglang.srt",),
    ),
    Engine(
        "unmask.adapters.dllm", "dllm", "dllm",
        "It is not on PyPI: install it from its repository, ZHZisZZ/dllm on GitHub.",
        "0.1.0, as of April 2026", "dllm.core.samplers.base.BaseSamplerConfig",
        ("dllm.core", "dllm.core.samplers", "dllm.core.samplers.base"), "BaseSampler = object",
    ),
    Engine(
        "unmask.engine.ray", "Ray", "ray", 'Run: pip install "unmask[ray]"', "2.31 to 2.60", "ray.cloudpickle",
    ),
    Engine(
        "unmask.models.hf", "transformers", "transformers", 'Run: pip install "unmask[hf]"', "4.46 to 5.22",
        "transformers.CONFIG_MAPPING",
    ),
    Engine(
        "unmask.plot", "matplotlib", "matplotlib", 'Run: pip install "unmask[plot]"', "3.8 and later",
        "matplotlib.figure.Figure", ("matplotlib.figure",), ask="require",
    ),
]  # fmt: skip


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes packages out of source texts, in place of what is installed, and forgets them afterwards."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(root, sources):
        for name in [name for name in sys.modules if name == root or name.startswith(f"{root}.")]:
            monkeypatch.delitem(sys.modules, name)
        for name, source in sources.items():
            file = tmp_path.joinpath(*name.split("."), "__init__.py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)
        importlib.invalidate_caches()
        made.append(root)

    made = []
    yield make
    for name in [name for name in sys.modules if name.split(".")[0] in made]:
        del sys.modules[name]  # what was there before comes back when the monkeypatch is undone


@pytest.fixture
def old(monkeypatch):
    """Any package whose metadata are asked for is version 0.0.1."""
    monkeypatch.setattr("importlib.metadata.version", lambda project: "0.0.1")


def asked(engine, monkeypatch):
    """What is said when our module asks for the package."""
    if engine.ours.startswith("unmask.adapters."):
        monkeypatch.delitem(sys.modules, engine.ours, raising=False)
        with pytest.raises(ImportError) as caught:
            importlib.import_module(engine.ours)
    else:
        module = importlib.import_module(engine.ours)
        with pytest.raises(ImportError) as caught:
            getattr(module, engine.ask)()
    return caught.value


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.title)
def test_an_engine_that_is_missing_is_named_with_the_way_to_get_it(engine, fake, monkeypatch):
    fake(engine.module, {})
    monkeypatch.setitem(sys.modules, engine.module, None)
    error = asked(engine, monkeypatch)
    assert isinstance(error, ModuleNotFoundError)
    assert str(error) == f"This needs {engine.title}, which is not installed. {engine.remedy}"


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.title)
def test_an_engine_that_lacks_a_name_is_told_its_version_and_those_that_work(engine, fake, old, monkeypatch):
    fake(engine.module, dict.fromkeys((engine.module, *engine.parts), engine.names))
    error = asked(engine, monkeypatch)
    assert not isinstance(error, ModuleNotFoundError)
    assert str(error) == (
        f"This needs '{engine.name}', which {engine.title} 0.0.1 does not have; supported: {engine.versions}. "
        f"{engine.remedy}"
    )


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.title)
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import kernels_of_it", "ModuleNotFoundError: No module named 'kernels_of_it'"),
        ("from json import nothing", "ImportError: cannot import name 'nothing' from 'json'"),
        ("raise ImportError('libcuda.so.1: cannot open')", "ImportError: libcuda.so.1: cannot open"),
        ("raise RuntimeError('No driver.\\n Get one.')", "RuntimeError: No driver. Get one"),
        ("None.x", "AttributeError: 'NoneType' object has no attribute 'x'"),
        ("from {module} import nothing", "ImportError: cannot import name 'nothing' from "),
        ("import {module}.nothing", "ModuleNotFoundError: No module named '{module}.nothing'"),
        ("assert False", "AssertionError"),
    ],
    ids=lambda value: value.split("(")[0] if isinstance(value, str) else None,
)
def test_an_engine_that_fails_inside_is_quoted_and_never_called_missing(engine, line, said, fake, old, monkeypatch):
    fake(engine.module, {engine.module: line.format(module=engine.module)})
    error = asked(engine, monkeypatch)
    assert not isinstance(error, ModuleNotFoundError)
    begin = f"{engine.title} 0.0.1 is installed, but fails when it is imported: {said.format(module=engine.module)}"
    assert str(error).startswith(begin)
    assert "not installed" not in str(error)
    assert error.__cause__ is not None  # for whoever wants to see where


def test_a_failure_in_a_module_that_is_loaded_on_demand_is_inside_too(fake):
    """Large packages load a module when one of its names is first asked for."""
    fake(
        "lazy_one",
        {
            "lazy_one": "def __getattr__(name):\n"
            "    if name == 'Model':\n        import lazy_one.model\n        return 1\n"
            "    raise AttributeError(name)\n",
            "lazy_one.model": "import not_to_be_had",
        },
    )
    package = Package("Lazy", "lazy_one", "Run: nothing.")
    inside = r"^Lazy is installed, but fails .* No module named 'not_to_be_had'[.]$"
    with pytest.raises(ImportError, match=inside), package:
        from lazy_one import Model  # noqa: F401
    lacking = r"^This needs 'lazy_one.Other', which Lazy does not have. Run: nothing[.]$"
    with pytest.raises(ImportError, match=lacking), package:
        from lazy_one import Other  # noqa: F401


def test_a_package_without_metadata_says_its_version_itself(fake):
    fake("checkout_one", {"checkout_one": "__version__ = '3.1'"})
    package = Package("Checkout", "checkout_one", "Take another.", "1 to 2")
    lacking = r"which Checkout 3\.1 does not have; supported: 1 to 2[.]"
    with pytest.raises(ImportError, match=lacking), package:
        from checkout_one import Name  # noqa: F401


def test_what_is_imported_without_trouble_stays_and_what_is_no_exception_passes():
    package = Package("Python", "json", "")
    with package:
        from json import dumps
    assert dumps([1]) == "[1]"
    with pytest.raises(KeyboardInterrupt), package:
        raise KeyboardInterrupt


def test_the_command_of_the_harness_says_each_of_them_without_a_traceback(fake, monkeypatch, capsys):
    from unmask.adapters.__main__ import main

    for source, begin in (
        ("import nothing_there", "lm-evaluation-harness"),
        ("", "This needs 'lm_eval.api', which lm-evaluation-harness"),
    ):
        fake("lm_eval", {"lm_eval": source})
        monkeypatch.delitem(sys.modules, "unmask.adapters.harness", raising=False)
        monkeypatch.delattr("unmask.adapters.harness", raising=False)
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == 2
        assert capsys.readouterr().err.startswith(begin)
