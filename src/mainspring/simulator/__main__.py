"""`python -m mainspring.simulator`: the same as `mainspring simulate`."""

from __future__ import annotations

import sys

from mainspring.simulator.command import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], "python -m mainspring.simulator"))
