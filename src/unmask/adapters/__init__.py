"""Other people's engines, driven by the schedules of this library.

Each module is named after the part of the engine that it stands in for:

    scheduler    diffusers                  a scheduler for `LLaDA2Pipeline`, saved and loaded like any other
    counts       the LLaDA family           a drop-in for `get_num_transfer_tokens`
    hook         Dream                      a tokens hook for `diffusion_generate`
    algorithm    SGLang                     a `DllmAlgorithm` and its plugin
    sampler      dllm                       a `BaseSampler`
    harness      lm-evaluation-harness      a registered model: any benchmark with any schedule

`hosted` is what they share: a sampler whose loop and model belong to someone else. Nothing here is imported by the
rest of the library, no engine is needed to install it, and a module whose engine is missing says so in one sentence.
"""
