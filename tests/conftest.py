"""One thread per test process: the suite runs a process per core, and more threads would only wait for each other."""

try:
    import torch

    torch.set_num_threads(1)
except ModuleNotFoundError:
    pass
