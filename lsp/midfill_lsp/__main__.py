"""`python -I -m midfill_lsp`: the `midfill` command without its script."""

import sys

from midfill_lsp.cli import main

if __name__ == "__main__":
    sys.exit(main())
