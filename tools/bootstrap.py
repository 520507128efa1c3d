"""Makes .venv ready for the Makefile: ``python3 tools/bootstrap.py [--dev]``.

It needs nothing but the standard library. Where the calling python3 has a recent PyTorch, .venv sees that python3's
packages; pip then installs only what is missing, so that with nothing missing there is no need for a network.
It parses on Python 3.6, so that an old one is told so instead of failing at a line of syntax.
"""

import argparse
import importlib.util
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def say(text):
    print("setup: " + text, file=sys.stderr, flush=True)


def stop(text):
    say(text)
    sys.exit(1)


# Stage 1, in the calling Python: .venv itself


def oldest(start):
    """The version that follows `start` in pyproject.toml; not with tomllib, which old Pythons lack."""
    return tuple(int(number) for number in re.search(re.escape(start) + r">=(\d+)\.(\d+)", PYPROJECT).groups())


def check_python():
    wanted = oldest('requires-python = "')
    if sys.version_info < wanted:
        stop(
            "needs Python {}.{} or newer, but {} is {}.{}; name another one with `make PYTHON=... test`".format(
                *wanted, sys.executable, *sys.version_info[:2]
            )
        )


def check_compiler():
    wanted = [os.environ.get("CXX", "").split(" ")[0], "c++", "g++", "clang++"]
    if not any(name and shutil.which(name) for name in wanted):
        stop("no C++ compiler found (c++, g++, clang++ or $CXX); on Debian or Ubuntu: apt install g++")


def folders_with_torch():
    """The package folders of the calling Python, if its PyTorch imports and is recent enough."""
    try:
        import torch
    except Exception:  # whatever is wrong with that PyTorch, .venv gets its own
        return []
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < oldest('"torch'):
        return []
    say(f"building on PyTorch {torch.__version__} of {sys.executable}")
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return [folder for folder in folders if Path(folder).is_dir()]


def run_in_venv(*args, **options):
    return subprocess.run([VENV / "bin" / "python", *args], check=False, **options)


def venv_works():
    try:
        return run_in_venv("-c", "import pip").returncode == 0
    except OSError:  # its Python has gone
        return False


def create_venv(options):
    say("creating .venv for Python {}.{}.{}".format(*sys.version_info[:3]))
    made = None
    try:
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", *options, VENV], check=False)
    finally:  # also when interrupted
        if made is None or made.returncode != 0:
            shutil.rmtree(VENV, ignore_errors=True)
    if made.returncode != 0:
        stop("could not create .venv, see above")


def make_venv():
    folders = folders_with_torch()
    borrows_pip = bool(folders) and importlib.util.find_spec("pip") is not None
    if not borrows_pip and importlib.util.find_spec("ensurepip") is None:
        stop("python3 lacks the venv module with pip; on Debian or Ubuntu: apt install python3-venv")
    # addsitedir, not bare paths: it also follows the .pth files in there, such as those of editable installs. And not
    # --system-site-packages, which would skip a calling Python that is itself a virtual environment.
    lines = ["# made by tools/bootstrap.py for Python {1}.{2} of {0!a}".format(sys.base_prefix, *sys.version_info[:2])]
    lines += [f"import site; site.addsitedir({folder!a})" for folder in folders]
    text = "\n".join(lines) + "\n"
    purelib = sysconfig.get_path("purelib", "posix_prefix", {"base": str(VENV)})
    path_file = Path(purelib, "reduce_ops_setup.pth")
    if path_file.exists() and path_file.read_text() == text and venv_works():
        return
    if VENV.exists() and not list(VENV.glob(f"lib/*/site-packages/{path_file.name}")):
        stop(".venv is there, but not made by this; remove it, or activate it to have it used as it is")
    create_venv(["--without-pip"] if borrows_pip else [])
    path_file.write_text(text)


# Stage 2, in .venv's Python: its packages


def read_pyproject():
    try:
        import tomllib
    except ImportError:  # Python 3.10
        from pip._vendor import tomli as tomllib
    return tomllib.loads(PYPROJECT)


def is_missing(requirement):
    from importlib import metadata

    from pip._vendor.packaging.version import Version

    try:
        version = Version(metadata.version(requirement.name))
    except metadata.PackageNotFoundError:
        return requirement.name != "ninja" or shutil.which("ninja") is None  # the system's one will do
    # By base version: vendors ship PyTorch as 2.11.0a0+theirs, which has all of 2.11 but sorts before it.
    return not requirement.specifier.contains(Version(version.base_version))


def install(dev):
    from pip._vendor.packaging.requirements import Requirement

    pyproject = read_pyproject()
    project = pyproject["project"]
    wanted = [*pyproject["build-system"]["requires"], *project["dependencies"]]
    for group in ("test", "dev") if dev else ("test",):
        wanted += project["optional-dependencies"][group]
    requirements = [Requirement(text) for text in dict.fromkeys(wanted)]
    missing = [str(r) for r in requirements if r.name != project["name"] and is_missing(r)]
    if not missing:
        return
    size = "; some GB, this takes minutes" if any(text.startswith("torch") for text in missing) else ""
    say(f"installing {', '.join(missing)}{size}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *missing]
    if subprocess.run(pip, check=False).returncode != 0:
        stop(f"pip could not install {', '.join(missing)}; with no network, install them for python3 by other means")


def main():
    check_python()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dev", action="store_true", help="also the tools of `make lint`")
    dev = parser.parse_args().dev
    if Path(sys.prefix).resolve() != VENV:  # not true the second time, nor when .venv is activated
        check_compiler()
        make_venv()
        sys.exit(run_in_venv(__file__, *sys.argv[1:]).returncode)
    install(dev)
    # Last: these are what make goes by.
    for stamp in ("ready", "ready-dev") if dev else ("ready",):
        (VENV / f".{stamp}").touch()


main()
