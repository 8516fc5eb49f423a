"""Machines played from text and folders; what fits on them."""

from pathlib import Path

import pytest

from nightschool.engine import probe
from nightschool.engine.device import Accelerator, Device, Power, fits, largest_alias_that_fits, this_device
from nightschool.engine.models import load_models

GiB = 1024**3


def device(memory: int, accelerator: Accelerator | None = None) -> Device:
    return Device("Linux", "x86_64", 8, memory, memory, accelerator, Power())


def play(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n"}


def test_memory_of_a_plain_machine(tmp_path: Path) -> None:
    assert probe.linux_memory(play(tmp_path, MEMINFO)) == (16 * GiB, 8 * GiB)
    assert probe.linux_memory(tmp_path / "none") == (None, None)


@pytest.mark.parametrize(
    ("group", "files"),
    [
        (
            "0::/\n",
            {
                "memory.max": f"{4 * GiB}",
                "memory.current": f"{3 * GiB}",
                "memory.stat": f"inactive_file {GiB}\n",
            },
        ),
        (
            "5:cpu,memory:/docker/x\n",
            {
                "memory/memory.limit_in_bytes": f"{4 * GiB}",
                "memory/memory.usage_in_bytes": f"{3 * GiB}",
                "memory/memory.stat": f"total_inactive_file {GiB}\n",
            },
        ),
    ],
)
def test_a_container_counts_by_its_own_limit(tmp_path: Path, group: str, files: dict[str, str]) -> None:
    limits = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    assert probe.linux_memory(play(tmp_path, {**MEMINFO, "proc/self/cgroup": group, **limits})) == (
        4 * GiB,
        2 * GiB,
    )


def test_no_limit_is_the_machines_memory(tmp_path: Path) -> None:
    files = {**MEMINFO, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}
    assert probe.linux_memory(play(tmp_path, files)) == (16 * GiB, 8 * GiB)


def test_nvidia_smi(tmp_path: Path) -> None:
    gpu, watts = probe.parse_nvidia("NVIDIA H200, 143771, 143000, 75.4\nNVIDIA H200, 1, 1, 1\n")
    assert gpu == Accelerator("cuda", "NVIDIA H200", 143771 * 1024**2, 143000 * 1024**2) and watts == 75.4
    assert probe.parse_nvidia("GeForce, 8192, 100, [N/A]")[1] is None
    assert probe.parse_nvidia("No devices were found") == probe.parse_nvidia(None) == (None, None)


def test_macos_memory_and_battery() -> None:
    text = "Statistics: (page size of 16384 bytes)\nPages free: 100.\nPages active: 9.\nPages inactive: 20.\n"
    assert probe.parse_vm_stat(text) == 120 * 16384
    assert probe.parse_pmset("Now drawing from 'Battery Power'\n -InternalBattery-0\t81%; discharging") == (
        0.81,
        False,
    )
    assert probe.parse_pmset(None) == (None, None)


def test_linux_battery(tmp_path: Path) -> None:
    supply = "sys/class/power_supply"
    files = {f"{supply}/BAT0/type": "Battery\n", f"{supply}/BAT0/capacity": "55\n"}
    mains = {f"{supply}/AC/type": "Mains\n", f"{supply}/AC/online": "1\n"}
    assert probe.linux_battery(play(tmp_path, {**files, **mains})) == (0.55, True)
    assert probe.linux_battery(tmp_path / "none") == (None, None)


def test_the_largest_model_that_fits(tmp_path: Path) -> None:
    models = load_models(cwd=tmp_path)
    gpu = Accelerator("cuda", "g", 24 * GiB, None)
    mac = Accelerator("apple", "m", 12 * GiB, None)
    assert largest_alias_that_fits(models, device(64 * GiB), "transformers") == "smollm2-135m"
    assert largest_alias_that_fits(models, device(64 * GiB, gpu), "vllm") == "qwen35-9b"
    assert largest_alias_that_fits(models, device(16 * GiB, mac), "mlx") == "qwen35-9b"
    assert largest_alias_that_fits(models, device(GiB // 2), "transformers") is None


def test_what_cannot_be_told_is_unknown() -> None:
    assert fits(None, device(GiB)) is None
    unknown = Device("Linux", "x86_64", 1, None, None, None, Power())
    assert fits(1.0, unknown) is None


def test_this_machine_can_be_looked_at() -> None:
    found = this_device()
    assert found.cores >= 1 and found.as_json()["power"].keys() == {"watts", "battery", "plugged"}
