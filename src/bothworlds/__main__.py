"""The command line, or the command that installs it."""

import gc
import os
import sys

from bothworlds.errors import missing_extra


def main() -> None:
    """Run the ``bothworlds`` command; Ctrl-C while it loads ends it without a traceback."""
    try:
        _main()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        # Python would visit every object of Numba's again before the process ends, which takes a
        # fifth of the time of a short command. Files are closed where they were opened.
        gc.freeze()


def _main() -> None:
    if sys.argv[1:2] == ["decide"]:
        # A decision needs no linear algebra, and starting threads for it takes as long as NumPy.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from bothworlds.cli.decisions import quick

        code = quick(sys.argv[2:])
        if code is not None:
            # All is written and nothing is open. Taking down Python with Numba in it would take
            # longer than the decision did.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
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
