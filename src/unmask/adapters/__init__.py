"""Other people's engines, driven by the schedules of this library.

Each module is named after its engine:

    diffusers    a scheduler for `LLaDA2Pipeline`, saved and loaded like any other
    transformers a callable for `model.generate(custom_generate=…)`
    llada        a drop-in for the LLaDA family's `get_num_transfer_tokens`
    dream        a tokens hook for Dream's `diffusion_generate`
    sglang       a `DllmAlgorithm` and its plugin
    dllm         a `BaseSampler`
    harness      a registered model of lm-evaluation-harness: any benchmark with any schedule
    compare      the same for several schedules: accuracy against tokens per forward pass

`hosted` is what they share: a sampler whose loop and model belong to someone else. Nothing here is imported by the
rest of the library, no engine is needed to install it, and a module whose engine is missing says so in one sentence.
"""
