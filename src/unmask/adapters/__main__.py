# pyright: basic
"""The command of lm-evaluation-harness with the model `unmask` registered, and one of ours: `unmask-lm-eval`."""

import sys


def main() -> None:
    try:
        from unmask.adapters import harness  # noqa: F401 - importing it registers the model
    except ImportError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    if sys.argv[1:2] == ["compare"]:
        from unmask.adapters.compare import command

        command.main(sys.argv[2:], prog_name="unmask-lm-eval compare")
    from lm_eval.__main__ import cli_evaluate  # pyright: ignore[reportMissingImports]

    cli_evaluate()


if __name__ == "__main__":
    main()
