"""The entry of `sched`: the short way for what is asked all day, the long way for everything else."""

from __future__ import annotations

import gc
import os
import sys


def main() -> int:
    """Carry out the command line; the exit status."""
    try:
        return _main()
    except KeyboardInterrupt:  # while modules were imported; later ones are met by `reporting.guarded`
        return 130


def _main() -> int:
    from kandev_sched.interfaces.cli.fast import attempt
    from kandev_sched.interfaces.cli.reporting import finish

    argv = sys.argv[1:]
    gc.disable()  # nothing that a short command makes is worth looking for
    status = attempt(argv)
    if status is not None:
        # All is committed, closed and flushed: tearing the interpreter down would cost milliseconds more.
        os._exit(finish(status))
    gc.enable()
    from kandev_sched.interfaces.cli.app import run

    return finish(run(argv))


if __name__ == "__main__":
    sys.exit(main())
