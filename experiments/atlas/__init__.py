"""What schedules cost on six kinds of data: `python -m experiments.atlas KIND`."""
