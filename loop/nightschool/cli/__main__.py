"""`python -m nightschool.cli` is `nightschool`."""

import sys

from nightschool.cli import main

sys.exit(main())
