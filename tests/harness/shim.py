"""Small C libraries: to preload into a server, where a test or a benchmark has to stand between it and the system, and
to load as extensions of others."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from harness.server import Server


def compiled(source: Path, server: Server | None = None) -> Path:
    """The library made of a C file, for one that includes PostgreSQL's headers those of `server`: in the cache, where the
    servers' user can read it, and made only once."""
    includes = [f"-I{server.directory('includedir-server')}"] if server else []
    digest = hashlib.sha256(source.read_bytes() + "".join(includes).encode()).hexdigest()[:16]
    library = Path(os.environ["ID_GEN_CACHE"]) / "shims" / f"{source.stem}-{digest}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as directory:
            new = Path(directory) / library.name
            subprocess.run(
                ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-D_GNU_SOURCE", *includes, "-o", new, source, "-ldl"],
                check=True,
            )
            new.rename(library)
    return library
