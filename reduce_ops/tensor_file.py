"""Reads a tensor from a file of the user's: .npy, .pt or .safetensors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor


def read_tensor(path: Path) -> Tensor:
    """Return the one tensor that the file holds, on the CPU.

    Raises:
        ValueError: The file cannot be read, is of another kind, or does not hold exactly one tensor.
    """
    readers: dict[str, Callable[[], Any]] = {
        ".npy": lambda: np.load(path, allow_pickle=False),
        ".pt": lambda: torch.load(path, map_location="cpu", weights_only=True),
        ".safetensors": lambda: load_file(path),
    }
    reader = readers.get(path.suffix)
    if reader is None:
        raise ValueError(f"{path}: accepted are .npy, .pt and .safetensors files")
    try:
        content = reader()
        tensor = _only_tensor(content)
    except Exception as error:  # each library has its own exceptions for a file that is not what it claims to be
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"{path}: not a readable {path.suffix} file with one tensor: {reason}") from error
    if tensor.numel() == 0:
        raise ValueError(f"{path}: holds an empty tensor; at least one element is needed")
    return tensor


def _only_tensor(content: Any) -> Tensor:
    if isinstance(content, np.ndarray):
        return torch.from_numpy(content)
    if isinstance(content, dict):
        if len(content) != 1:
            raise ValueError(f"it holds {len(content)} entries ({', '.join(map(str, content))})")
        (content,) = content.values()
    if not isinstance(content, Tensor):
        raise ValueError(f"it holds a {type(content).__name__}")
    if content.layout != torch.strided or content.is_quantized or content.is_nested:
        raise ValueError(f"its tensor is not dense ({content.layout}, {content.dtype})")
    return content
