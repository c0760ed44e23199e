"""`holdfast doctor`: check versions, processor, disk and optional packages."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from holdfast import __version__
from holdfast.cli.options import JsonOption
from holdfast.cli.terminal import command_line, print_table, print_text, say, show
from holdfast.machine import declared_requirements, installed_version, processor_name
from holdfast.registry import installed_plugins


def processor_facts() -> dict[str, Any]:
    """Return name, cores, threads, and what networks compute in; None where it cannot be known."""
    facts: dict[str, Any] = {"name": processor_name(), "cores": _usable_cores()}
    facts |= dict.fromkeys(("threads", "device", "capability", "precision"))
    try:
        import torch

        from holdfast.neural.settings import resolve_device, resolve_precision

        device = resolve_device("auto")
        facts["threads"] = torch.get_num_threads()
        facts["device"] = device.type
        facts["capability"] = torch.backends.cpu.get_cpu_capability()
        facts["precision"] = resolve_precision("auto", device)
    except Exception as problem:  # torch is missing, which the list of extras says, or broken
        facts["problem"] = f"{type(problem).__name__}: {problem}"
    return facts


def cache_facts() -> dict[str, Any]:
    """Return where data sets go, whether that can be written, and how much space is left there and here."""
    facts: dict[str, Any] = {"folder": None, "variable": None, "writable": None, "free_bytes": None}
    facts["free_bytes_here"] = _free_bytes(Path.cwd())
    try:
        from holdfast.datasets.folders import DATA_VARIABLE, data_folder
    except ImportError:  # a package that is missing is named in the list of packages
        return facts
    folder = data_folder()  # or the nearest folder above it that exists, in which the rest would be made
    nearest = next((path for path in (folder, *folder.absolute().parents) if path.exists()), Path("/"))
    writable, free = _can_write(nearest), _free_bytes(nearest)
    return facts | {"folder": folder, "variable": DATA_VARIABLE, "writable": writable, "free_bytes": free}


def _can_write(folder: Path) -> bool:
    """Return whether a file can be made there; asking for permissions would not notice a read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _usable_cores() -> int | None:
    """Return the cores that this process may use, which a container or a batch system can limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


OLDEST_PYTHON = (3, 11)
MODULES = {"scikit-learn": "sklearn"}  # of distributions whose module has another name
EXTRAS = {  # extra -> what it is for
    "neural": "networks",
    "plots": "pictures as files",
    "boosters": "XGBoost, LightGBM, CatBoost",
    "excel": "tables in .xlsx files",
    "files": "tables at other addresses",
    "ray": "fits and sweeps on a Ray cluster",
    "dask": "fits and sweeps on a Dask cluster",
    "tensorboard": "watching a training",
    "tracking": "MLflow and Optuna",
    "onnx": "exporting to ONNX",
    "docs": "building the documentation",
    "dev": "working on holdfast",
}
OTHERS = ("fastapi", "gcsfs", "s3fs", "skorch", "transformers", "wandb")  # tools that no extra installs
LITTLE_SPACE = 1 << 30  # bytes


def doctor(as_json: JsonOption = False) -> None:
    """Check versions, processor, disk and optional packages.

    The exit code is 1 if something that holdfast needs is missing, too old or broken.
    """
    needed = _requirements()
    result: dict[str, Any] = {
        "holdfast": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": [_package(*need.split(">=")) for need in needed[""]],
        "processor": processor_facts(),
        "cache": cache_facts(),
        "extras": [_extra(name, purpose, needed.get(name, [])) for name, purpose in EXTRAS.items()],
        "others": {name: installed_version(name) for name in OTHERS},
        "plugins": [vars(plugin) for plugin in installed_plugins()],
    }
    result["problems"] = _problems(result)
    result["remarks"] = _remarks(result)
    result["mend"] = _mend(result)
    answer = (
        "Something that holdfast needs is broken." if result["problems"] else "Everything that holdfast needs works."
    )
    following = result["mend"] or command_line("holdfast", "demo")
    show(answer, result, following=following, as_json=as_json, body=lambda: _print(result))
    if result["problems"]:
        raise typer.Exit(1)


def _requirements() -> dict[str, list[str]]:
    """Return what holdfast declares to need, such as "numpy>=2.0", by extra; "" is what it always needs."""
    found: dict[str, list[str]] = {}
    declared = declared_requirements()
    for requirement in [f"holdfast>={__version__}"] if declared is None else declared:
        need, _, marker = requirement.partition(";")
        platforms = re.findall(r"sys_platform (==|!=) ['\"](\w+)['\"]", marker)
        if any((relation == "==") != (sys.platform == name) for relation, name in platforms):
            continue
        extra = re.search(r"extra == ['\"](.+)['\"]", marker)
        found.setdefault(extra[1] if extra else "", []).append(need.strip())
    return found


def _package(name: str, oldest: str) -> dict[str, Any]:
    """Return the version of a package that is needed, and what is wrong with it."""
    found, problem = installed_version(name), None
    if found is None:
        problem = "is not installed"
    elif _older(found, oldest):
        problem = f"{found} is too old: {oldest} or newer is needed"
    else:
        try:
            import_module(MODULES.get(name, name))
        except Exception as error:  # whatever a broken installation raises
            problem = f"{found} cannot be imported ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
    return {"name": name, "version": found, "oldest": oldest, "problem": problem}


def _extra(name: str, purpose: str, needs: list[str]) -> dict[str, Any]:
    """Return what is there of an extra, what is missing or too old, and how to install that."""
    missing, present = [], []
    for need in needs:
        distribution, _, oldest = need.partition(">=")
        name_alone = distribution.partition("[")[0]
        found = installed_version(name_alone) or installed_version(name_alone.removesuffix("-cpu"))
        if found is None or _older(found, oldest):
            missing.append(need)
        else:
            present.append(f"{name_alone} {found}")
    install = f"pip install {' '.join(repr(need) for need in missing)}" if missing else None
    return {"name": name, "for": purpose, "present": present, "missing": missing, "install": install}


def _older(found: str, oldest: str) -> bool:
    """Return whether a version is older than another.

    Examples
    --------
    >>> _older("2.10.0rc1", "2.9"), _older("2.4.0+cpu", "2.4"), _older("1.26.4", "2.0")
    (False, False, True)
    """
    numbers = [[int(part) for part in re.findall(r"\d+", text.partition("+")[0])] for text in (found, oldest)]
    return numbers[0] + [0] * len(numbers[1]) < numbers[1]


def _problems(result: dict[str, Any]) -> list[str]:
    """Return what keeps holdfast from working."""
    problems = [f"{package['name']} {package['problem']}." for package in result["packages"] if package["problem"]]
    if sys.version_info < OLDEST_PYTHON:
        problems.insert(0, f"Python {result['python']} is too old: {'.'.join(map(str, OLDEST_PYTHON))} is needed.")
    return problems


def _mend(result: dict[str, Any]) -> str | None:
    """Return the command that installs what is missing, too old or broken."""
    bad = [p for p in result["packages"] if p["problem"]]
    if not bad:
        return None
    again = ["--force-reinstall"] if any(p["version"] for p in bad) else []
    return command_line("pip", "install", "--upgrade", *again, *(f"{p['name']}>={p['oldest']}" for p in bad))


def _remarks(result: dict[str, Any]) -> list[str]:
    """Return what is worth knowing though everything works."""
    cache, processor = result["cache"], result["processor"]
    remarks = []
    if cache["writable"] is False:
        remarks.append(
            f"The cache folder {cache['folder']} cannot be written: data sets cannot be downloaded. "
            f"Set {cache['variable']} to a folder that can."
        )
    for name, free in (("cache", cache["free_bytes"]), ("working folder", cache["free_bytes_here"])):
        if free is not None and free < LITTLE_SPACE:
            remarks.append(f"Only {free / 2**30:.1f} GiB are free at the {name}.")
    cores, threads = processor["cores"], processor["threads"]
    if cores is not None and threads is not None and threads > cores:
        remarks.append(f"torch uses {threads} threads on {cores} cores. Set OMP_NUM_THREADS={cores}.")
    return remarks + [plugin["problem"] for plugin in result["plugins"] if plugin["problem"]]


def _print(result: dict[str, Any]) -> None:
    processor, cache = result["processor"], result["cache"]
    for line in (*result["problems"], *result["remarks"]):
        print_text(line)
    say("")
    say(f"holdfast {result['holdfast']}, Python {result['python']}, {result['platform']}")
    rows = [
        [p["name"], p["version"] or "–", p["oldest"], "see above" if p["problem"] else "ok"] for p in result["packages"]
    ]
    print_table("Packages", ["package", "version", "needs", "state"], rows)
    threads = "unknown" if processor["threads"] is None else str(processor["threads"])
    print_table(
        "Machine",
        ["what", "value"],
        [
            ["processor", processor["name"]],
            ["cores, threads of torch", f"{processor['cores']}, {threads}"],
            ["device", processor["device"] or "unknown"],
            ["precision of networks", _precision(processor)],
            ["cache folder", str(cache["folder"] or "unknown")],
            ["writable", "unknown" if cache["writable"] is None else cache["writable"]],
            ["free there, free here", f"{_gibibytes(cache['free_bytes'])}, {_gibibytes(cache['free_bytes_here'])}"],
        ],
    )
    rows = [
        [e["name"], e["for"], "ok" if not e["missing"] else f"{len(e['missing'])} missing"] for e in result["extras"]
    ]
    print_table("Extras", ["extra", "for", "state"], rows)
    for extra in result["extras"]:
        if extra["present"]:
            print_text(f"{extra['name']} has {', '.join(extra['present'])}", indent="  ")
        if extra["install"]:
            print_text(f"{extra['name']}: {extra['install']}", indent="  ")
    others = ", ".join(f"{name} {found or 'is not installed'}" for name, found in result["others"].items())
    print_text(f"others: {others}", indent="  ")
    if result["plugins"]:
        rows = [[p["name"], p["kind"], p["package"], "see above" if p["problem"] else "ok"] for p in result["plugins"]]
        print_table("Added by other packages", ["name", "what", "package", "state"], rows)


def _precision(processor: dict[str, Any]) -> str:
    """Return what networks compute in, with the reason."""
    if processor["precision"] is None:
        return "unknown"
    has = ("has no" if processor["precision"] == "fp32" else "has") + " fast bfloat16"
    if processor["device"] == "cpu":
        has += f" (AMX, AVX-512 BF16); torch uses {processor['capability']}"
    return f"{processor['precision']}: the {processor['device']} {has}"


def _gibibytes(n_bytes: int | None) -> str:
    return "unknown" if n_bytes is None else f"{n_bytes / 2**30:.1f} GiB"
