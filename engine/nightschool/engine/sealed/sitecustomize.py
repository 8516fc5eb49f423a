"""Seals a Python child before its first line: Python imports this file by itself, from PYTHONPATH.

`offline.seal` puts this folder there. Another sitecustomize, which this one hides, is run afterwards. A child of the process
that NIGHTSCHOOL_PARENT names ends with it (on Linux): vLLM's engine would wait for ever for a process that was killed.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PR_SET_PDEATHSIG = 1


def _seal() -> None:
    if "NIGHTSCHOOL_SEALED" not in os.environ:
        return
    name = "nightschool.engine.offline"
    spec = spec_from_file_location(name, _HERE.parent / "offline.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.seal([host for host in os.environ["NIGHTSCHOOL_SEALED"].split(",") if host])


def _follow() -> None:
    if sys.platform == "linux" and os.environ.get("NIGHTSCHOOL_PARENT") == str(os.getppid()):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 9)


def _go_on() -> None:
    elsewhere = [path for path in sys.path if Path(path).resolve() != _HERE]
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


_seal()
_follow()
_go_on()
