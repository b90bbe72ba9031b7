"""One thread per test process: the suite runs one process per core, and threads on top of that only wait for each other."""

try:
    import torch

    torch.set_num_threads(1)
except ModuleNotFoundError:
    pass
