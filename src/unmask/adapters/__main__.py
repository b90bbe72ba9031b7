# pyright: basic
"""The command of lm-evaluation-harness with the model `unmask` registered: `unmask-lm-eval`."""

import sys


def main() -> None:
    try:
        from unmask.adapters import harness  # noqa: F401 - importing it registers the model
    except ImportError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    from lm_eval.__main__ import cli_evaluate  # pyright: ignore[reportMissingImports]

    cli_evaluate()


if __name__ == "__main__":
    main()
