"""Files that are written whole or not at all."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def try_folder(folder: Path) -> None:
    """Raise an OSError unless files can be written to a folder, which its permissions alone do not tell."""
    tempfile.TemporaryDirectory(dir=folder).cleanup()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, with the name of ``path`` but beside it, and move it there when that is done.

    Where the writing fails, what was at ``path`` stays. What cannot be replaced, as /dev/stdout, is given itself.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        new = Path(folder, target.name)
        yield new
        new.replace(target)
