"""Measure a model once; then compute its best schedule, and the cost of any other.

    measurement    the losses of a model under one order, on texts; this and the next need torch
    series         several orders one after the other, continuing what is known
    losses         what was measured of an order, and what any sizes then cost
    onelength      the same on texts that all have as many tokens to fill
    mixed          the same on texts that differ in that
    groups         how texts differ, for the standard error of any cost
    saved          what was measured, in a file
    numbers        numbers within a file
    calibration    the losses of several orders in a file, and the schedules they imply
    advice         how many steps to take, in which order, with which sizes
    dependence     how much positions tell of each other, given what is revealed
    revealing      measuring that; this and the last need torch
    subsets        the same after every set of positions, where there are few; needs torch too
    learning       an order that keeps dependent positions out of the same step
    refinement     an order made better by measuring it
    confirmation   the same, and compared with the standard orders on texts that were held out

Names load when they are first used: reading a calibration and advising need no torch.
"""

import lazy_loader

# lazy_loader has no types; those of the names are in the stub beside this file.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
