"""Small C libraries for a server to load: to stand between it and the system, or to do what no SQL can."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path


def compiled(source: Path, *options: str) -> Path:
    """The library made of a C file: in the cache, where the servers' user can read it, and made only once."""
    digest = hashlib.sha256(source.read_bytes() + "\0".join(options).encode()).hexdigest()[:16]
    library = Path(os.environ["ID_GEN_CACHE"]) / "shims" / f"{source.stem}-{digest}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as directory:
            new = Path(directory) / library.name
            flags = ["-shared", "-fPIC", "-O2", "-Wall", "-D_GNU_SOURCE", *options]
            subprocess.run(["cc", *flags, "-o", new, source, "-ldl"], check=True)
            new.rename(library)
    return library
