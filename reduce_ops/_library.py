"""Loads the shared libraries. They hold no Python module: one build serves every Python version."""

import ctypes
import os
import re
import threading
from pathlib import Path

_NAMESPACES = {"reduce_ops": "reduce", "reduce_ops_bench": "reduce_bench"}
_loading = threading.Lock()


def find(name: str) -> Path:
    """Return the path of ``lib<name>.so`` in the package's folder.

    Raises:
        ImportError: The library was not built.
    """
    path = Path(__file__).with_name(f"lib{name}.so")
    if not path.exists():
        raise ImportError(f"{path.name} is missing from {path.parent}: build it with `make test` or `pip install .`")
    return path


def load(name: str) -> None:
    """Register the operators of ``lib<name>.so``; a second time changes nothing.

    Raises:
        ImportError: The library was not built, or was built for another PyTorch, or another library has defined
            operators in its namespace, which PyTorch gives to one library only.
    """
    import torch  # here, because `explain` only looks for a library and need not wait for it

    path = find(name)
    with _loading:  # while it looks for another owner of the namespace, a thread would be one for other threads
        if not _is_loaded(path):
            _check_that_no_other_has(_NAMESPACES[name], path)
        try:
            torch.ops.load_library(path)
        except OSError as error:
            raise ImportError(
                f"{path.name} does not load with PyTorch {torch.__version__}; build it again: {error}"
            ) from error


def _is_loaded(path: Path) -> bool:
    """Whether the process has loaded that very file, through Python or not."""
    try:
        ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _check_that_no_other_has(namespace: str, path: Path) -> None:
    """Raise what PyTorch would raise while the library's static objects are made, where nobody can catch it."""
    import torch

    clash = f'{path.name} cannot be loaded: PyTorch\'s operator namespace "{namespace}" belongs to another library'
    try:
        torch.library.Library(namespace, "DEF")  # and given back at once
    except RuntimeError as error:
        owner = re.search(r"Previous registration .* was registered at (.*?); latest", str(error))
        raise ImportError(
            f"{clash}, registered at {owner[1] if owner else 'an unknown place'}. PyTorch gives a namespace to one "
            f"library: do not load the other one, which may be another copy of this package, in the same process"
        ) from error
    # Fragments (TORCH_LIBRARY_FRAGMENT, torch.library.define) own no namespace, but define operators in it.
    operators = {schema.name for schema in torch._C._jit_get_all_schemas()}
    others = sorted(operator for operator in operators if operator.startswith(f"{namespace}::"))
    if others:
        raise ImportError(
            f"{clash}, which has defined {', '.join(others)}. Import reduce_ops before them; an operator that both "
            f"define cannot be had in one process"
        )
