"""The seal, tried in processes of its own: an audit hook cannot be taken out again."""

import subprocess
import sys
from pathlib import Path

import pytest

from nightschool.engine import offline

ENGINE = str(Path(offline.__file__).parents[2])
START = f"import sys; sys.path.insert(0, {ENGINE!r})\nfrom nightschool.engine import offline\n"
CHECK = """
import socket
def refused(call):
    try:
        call()
    except offline.Sealed:
        return True
    return False
"""


def run(code: str, **environment: str) -> str:
    """What a fresh Python prints."""
    ran = subprocess.run(
        [sys.executable, "-c", START + code],
        capture_output=True,
        text=True,
        env={"PATH": "", **environment},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.parametrize(
    "call",
    [
        "socket.create_connection(('192.0.2.1', 80), 1)",
        "socket.socket().connect(('192.0.2.1', 80))",
        "socket.socket().connect_ex(('192.0.2.1', 80))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.1', 53))",
        "socket.getaddrinfo('example.invalid', 80)",
        "socket.gethostbyname('example.invalid')",
        "socket.getnameinfo(('192.0.2.1', 80), 0)",
        "__import__('urllib.request').request.build_opener().open('http://192.0.2.1/')",
    ],
)
def test_other_machines_are_refused(call: str) -> None:
    code = f"""
def tried():
    import urllib.error
    try:
        {call}
    except urllib.error.URLError as error:
        raise error.reason
offline.seal()
print(refused(tried))
"""
    assert run(CHECK + code) == "True"


def test_a_name_of_this_machine_that_leads_elsewhere_allows_nothing() -> None:
    code = """
elsewhere = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]
socket.getaddrinfo = lambda *given, **more: elsewhere
offline.seal(("localhost", "LocalHost"))
print(refused(lambda: socket.create_connection(("localhost", 80), 1)))
"""
    assert run(CHECK + code) == "True"


def test_what_cannot_be_a_name_allows_nothing() -> None:
    code = """
offline.seal(("a..b", "x" * 70))
print(refused(lambda: socket.socket().connect(("192.0.2.1", 80))))
"""
    assert run(CHECK + code) == "True"


def test_this_machine_is_let_through(tmp_path: Path) -> None:
    code = f"""
offline.seal()
for family, address in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, {str(tmp_path / "s")!r})):
    server = socket.socket(family)
    server.bind(address)
    server.listen()
    with socket.socket(family) as client:
        client.connect(server.getsockname())
    server.close()
socket.getaddrinfo("localhost", 80)
socket.getaddrinfo(None, 80)
print("ok")
"""
    assert run(CHECK + code) == "ok"


def test_allowed_hosts_are_let_through_by_name_and_address() -> None:
    code = """
offline.seal(["192.0.2.9"])
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    client.connect(("192.0.2.9", 9))
except offline.Sealed:
    raise
except OSError:
    pass
print(refused(lambda: client.connect(("192.0.2.1", 9))))
"""
    assert run(CHECK + code) == "True"


def test_the_environment_is_set_and_a_second_call_changes_nothing() -> None:
    code = """
import os
offline.seal()
before = dict(os.environ)
offline.seal(["192.0.2.1"])
print(os.environ == before, offline.sealed(), os.environ["HF_HUB_OFFLINE"], os.environ["VLLM_HOST_IP"],
      refused(lambda: socket.gethostbyname("192.0.2.1")))
"""
    assert run(CHECK + code) == "True True 1 127.0.0.1 True"


def test_children_seal_themselves_and_their_own_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.theirs = True\n")
    child = f"import socket\n{CHECK}\nimport sys\noffline = sys.modules['nightschool.engine.offline']\n"
    child += "print(offline.sealed(), refused(lambda: socket.gethostbyname('192.0.2.1')), theirs)"
    code = f"""
offline.seal(["192.0.2.9"])
import os, subprocess
print(subprocess.run([sys.executable, "-c", {child!r}], capture_output=True, text=True, check=True).stdout)
print(os.environ["NIGHTSCHOOL_SEALED"])
"""
    assert run(code, PYTHONPATH=str(tmp_path)).split() == ["True", "True", "True", "192.0.2.9"]


def test_spawned_workers_are_sealed(tmp_path: Path) -> None:
    worker = "import socket\ndef work(_):\n    try:\n        socket.gethostbyname('192.0.2.1')\n"
    (tmp_path / "worker.py").write_text(
        worker + "    except PermissionError:\n        return 'refused'\n    return 'sent'\n"
    )
    code = """
import multiprocessing, worker
if __name__ == "__main__":
    offline.seal()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work := worker.work, [0])[0])
"""
    assert run(code, PYTHONPATH=str(tmp_path)) == "refused"
