"""Loads the shared libraries. They hold no Python module: one build serves every Python version."""

from pathlib import Path


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
    """Register the operators of ``lib<name>.so``.

    Raises:
        ImportError: The library was not built, or was built for another PyTorch.
    """
    import torch  # here, because `explain` only looks for a library and need not wait for it

    path = find(name)
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise ImportError(
            f"{path.name} does not load with PyTorch {torch.__version__}; build it again: {error}"
        ) from error
