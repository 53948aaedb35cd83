"""``python -m sketchlearn``."""

import sys

from sketchlearn.cli import main

if __name__ == "__main__":
    sys.exit(main())
