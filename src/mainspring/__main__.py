"""`python -m mainspring` is the command `mainspring`."""

import sys

from mainspring.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
