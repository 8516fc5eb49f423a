"""`python -m bench NAME ...` from a clone: learning, shared_prefix, masks, machine, agree, overhead, route, recall."""

import importlib
import sys

NAMES = ("learning", "shared_prefix", "masks", "machine", "agree", "overhead", "route", "recall")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python -m bench {{{','.join(NAMES)}}} ...")
    sys.exit(importlib.import_module(f"nightschool.bench.{sys.argv[1]}").main(sys.argv[2:]))
