"""The tests of `test_sglang` in SGLang's own classes, and what only they can show. `test_sglang_itself` runs this file.

In a process of its own: the engine changes other packages when it is imported, and empty modules stand for what needs
CUDA (`empties`).
"""

import dataclasses
import inspect

import pytest

import empties

empties.open_engines()

import torch  # noqa: E402
from sglang.srt.dllm.algorithm import algo_name_to_cls, get_algorithm  # noqa: E402
from sglang.srt.dllm.algorithm.base import DllmAlgorithm  # noqa: E402
from sglang.srt.dllm.config import DllmConfig  # noqa: E402
from sglang.srt.managers.schedule_batch import Req  # noqa: E402
from sglang.srt.model_executor.forward_batch_info import ForwardBatch  # noqa: E402
from sglang.srt.plugins import load_plugins  # noqa: E402
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo  # noqa: E402
from sglang.srt.sampling.sampling_params import SamplingParams  # noqa: E402

import standins  # noqa: E402
from test_sglang import *  # noqa: E402, F403 - pytest collects them here once more, with the fixture below
from test_sglang import ALL, BLOCK, DRAWS, MASK, REFUSED, SCHEDULES  # noqa: E402
from unmask import _check as check  # noqa: E402


@pytest.fixture
def module():
    """The adapter as the engine finds it: by the entry point of the installed package."""
    load_plugins()
    from unmask.adapters import sglang

    assert algo_name_to_cls["Unmask"] is sglang.Unmask
    assert issubclass(sglang.Unmask, DllmAlgorithm)
    return sglang


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_the_stand_in_has_the_engine_s_names_and_signatures():
    for name in vars(standins.DllmAlgorithm):
        mine = getattr(standins.DllmAlgorithm, name)
        if callable(mine):
            assert parameters(getattr(DllmAlgorithm, name)) == parameters(mine), name
    assert parameters(get_algorithm) == parameters(standins.get_algorithm)
    theirs = parameters(DllmConfig)
    assert [field.name for field in dataclasses.fields(standins.DllmConfig)] == theirs[:6]
    theirs = [field.name for field in dataclasses.fields(ForwardBatch)]
    mine = [field.name for field in dataclasses.fields(standins.ForwardBatch)]
    assert mine[:7] == theirs[:7]
    assert set(mine) <= set(theirs)


def test_the_adapter_overrides_what_the_engine_calls_with_its_signatures(module):
    for name in ("init_step_state", "step", "validate_request"):
        assert parameters(getattr(module.Unmask, name)) == parameters(getattr(DllmAlgorithm, name))
    assert [name for name in module.REFUSED if name not in SamplingParams.__struct_fields__] == []
    assert {"return_logprob", "custom_logit_processor"} <= set(parameters(Req))
    assert module.ALL == SamplingParams().top_k == ALL


def request(**options):
    return Req("1", "", [1, 2], SamplingParams(**options))


def served(settings=None, fdfo=False):
    return DllmConfig("Unmask", settings, BLOCK, MASK, 4, first_done_first_out_mode=fdfo)


@pytest.mark.parametrize(("changed", "sentence"), REFUSED)
def test_the_engine_is_told_of_requests_that_are_refused(module, changed, sentence):
    assert served().validate_request(request(**changed)) == f"The algorithm Unmask {sentence}"


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0}, {"temperature": 0.3}, {"top_p": 0.5}, {"top_k": 7, "max_new_tokens": 9}]
)
def test_the_engine_is_told_nothing_of_others(module, options):
    assert served().validate_request(request(**options)) is None


def test_a_log_probability_is_not_promised(module):
    wish = Req("1", "", [1, 2], SamplingParams(), return_logprob=True)
    assert "does not follow 'return_logprob' of a request" in served().validate_request(wish)


def test_what_the_engine_makes_of_requests_is_read_as_they_meant_it(module):
    """The temperature 0 of a request reaches an algorithm as top-k 1, and other numbers in single precision."""
    wishes = [
        {"temperature": 0.7}, {}, {"temperature": 0}, {"temperature": 1.3, "top_p": 0.8},
        {"temperature": 0.7, "top_k": 3},
    ]  # fmt: skip
    params = [SamplingParams(**wish) for wish in wishes]
    info = SamplingBatchInfo(
        temperatures=torch.tensor([each.temperature for each in params], dtype=torch.float).view(-1, 1),
        top_ps=torch.tensor([each.top_p for each in params], dtype=torch.float),
        top_ks=torch.tensor([each.top_k for each in params], dtype=torch.int32),
        min_ps=torch.zeros(5), is_all_greedy=False, is_any_greedy=True, need_top_p_sampling=True,
        need_top_k_sampling=True, need_min_p_sampling=False, vocab_size=6, device="cpu",
    )  # fmt: skip
    mine = get_algorithm(served({"schedule": SCHEDULES[0].to_json(), "temperature": 0.5}))
    assert mine._draws(batch(torch.full((5, BLOCK), MASK), info)) == DRAWS  # noqa: F405


def test_the_documented_settings_make_an_algorithm(module):
    from test_integrations import run

    namespace = {}
    run("SGLang", namespace)
    assert get_algorithm(served(namespace["settings"])).hosted.schedule == namespace["schedule"]


def test_an_unknown_setting_stops_the_server_with_one_sentence(module):
    with pytest.raises(check.InputError, match="Argument 'dllm-algorithm-config' must be a known name, not 'steps'"):
        get_algorithm(served({"steps": 3}))
