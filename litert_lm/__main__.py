"""`python -m litert_lm` is the same as the console script `litert-lm`."""

from __future__ import annotations

import sys

from litert_lm.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
