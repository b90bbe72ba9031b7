"""`python -m unmask` is `unmask`."""

from unmask.cli import main

main()
