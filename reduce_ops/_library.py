"""Loads the shared libraries. They hold operators only, no Python module: one build serves every Python version."""

from pathlib import Path

import torch


def load(name: str) -> None:
    """Load ``lib<name>.so`` from the package's folder and register its operators.

    Raises:
        ImportError: The library was not built, or was built for another PyTorch.
    """
    path = Path(__file__).with_name(f"lib{name}.so")
    if not path.exists():
        raise ImportError(f"{path.name} is missing from {path.parent}: build it with `make test` or `pip install .`")
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(
            f"{path.name} does not load with PyTorch {torch.__version__}; build it again: {error}"
        ) from error
