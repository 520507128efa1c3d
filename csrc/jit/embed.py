"""Writes the headers of kernels as a C++ file: ``python3 csrc/jit/embed.py OUTPUT``.

The library compiles kernels at run time, wherever it is loaded from, so it holds their source. setup.py calls this, and
so do the tests that build kernels without PyTorch.
"""

import hashlib
import sys
from pathlib import Path

CSRC = Path(__file__).resolve().parent.parent
PATTERNS = ("device/*.cuh", "exact/*.cuh", "exact/state.h", "ladder/*.cuh", "ladder/limits.h", "types.h")


def headers() -> list[Path]:
    """Return the headers of kernels, in a fixed order."""
    return sorted(path for pattern in PATTERNS for path in CSRC.glob(pattern))


def embedded() -> str:
    """Return the C++ file."""
    digest = hashlib.sha256()
    entries = []
    for path in headers():
        name, text = path.relative_to(CSRC).as_posix(), path.read_text(encoding="utf-8")
        digest.update(f"{name}\0{text}\0".encode())
        entries.append(f'    {{"{name}", R"embedded({text})embedded"}},\n')
    return (
        "// Written by csrc/jit/embed.py.\n\n"
        '#include "jit/sources.h"\n\n'
        "namespace reduce_ops::jit {\n\n"
        f"const Source kSources[] = {{\n{''.join(entries)}}};\n"
        f"const int kSourceCount = {len(entries)};\n"
        f'const std::string_view kSourcesHash = "{digest.hexdigest()[:16]}";\n\n'
        "}  // namespace reduce_ops::jit\n"
    )


def write(output: Path) -> None:
    """Write the C++ file, unless it is there as it should be: a build then has nothing to do."""
    text = embedded()
    if not output.exists() or output.read_text(encoding="utf-8") != text:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
