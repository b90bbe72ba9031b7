"""`python -m unmask.cli` is `unmask`."""

from unmask.cli import main

main()
