"""Small C libraries for a server to load: to stand between it and the system, or to do what no SQL can."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

# Where the server is for another processor, and QEMU runs it: that, as Debian calls it.
EMULATED = os.environ.get("ID_GEN_EMULATED")
COMPILER = f"{EMULATED}-gcc" if EMULATED else "cc"


def compiled(source: Path, *options: str) -> Path:
    """The library made of a C file: in the cache, where the servers' user can read it, and made only once."""
    digest = hashlib.sha256(source.read_bytes() + "\0".join([COMPILER, *options]).encode()).hexdigest()[:16]
    library = Path(os.environ["ID_GEN_CACHE"]) / "shims" / f"{source.stem}-{digest}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as directory:
            new = Path(directory) / library.name
            flags = ["-shared", "-fPIC", "-O2", "-Wall", "-D_GNU_SOURCE", *options]
            subprocess.run([COMPILER, *flags, "-o", new, source, "-ldl"], check=True)
            new.rename(library)
    return library


def preloading(*libraries: Path) -> dict[str, str]:
    """What has a server load these before all others."""
    preload = "LD_PRELOAD", ":".join(map(str, libraries))
    # QEMU itself is to load none of them.
    return {"QEMU_SET_ENV": "=".join(preload)} if EMULATED else dict([preload])
