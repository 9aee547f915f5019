"""The command line, or the command that installs it."""

import sys

from bothworlds.errors import missing_extra


def main() -> None:
    """Run the ``bothworlds`` command."""
    if sys.argv[1:2] == ["decide"]:
        from bothworlds.cli.decisions import quick

        code = quick(sys.argv[2:])
        if code is not None:
            sys.exit(code)
    try:
        from bothworlds.cli import app
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in {"rich", "typer"}:
            raise
        sys.exit(str(missing_extra("lab", package)))
    app(prog_name="bothworlds")


if __name__ == "__main__":
    main()
