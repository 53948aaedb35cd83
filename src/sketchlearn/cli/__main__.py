"""``python -m sketchlearn.cli``"""

import sys

from sketchlearn.cli import main

sys.exit(main())
