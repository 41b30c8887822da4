"""The extension's file in the data directory, as a test reads it, forges it and takes it away."""

import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from harness.cluster import Cluster

# The page in which a server replays the bound of its reservation.
PAGE = "global/8473"
# What the line of its place says.
PLACE = ("system", "timeline", "inode", "created", "file_inode", "file_created")
READ_ONLY = 0o500
OURS = 0o700


class Reservation:
    """`id_gen/reservation` of one cluster, and what lies beside it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.directory = cluster.data / "id_gen"
        self.file = self.directory / "reservation"
        self.marker = self.directory / "issued"
        self.upgraded = self.directory / "upgraded"
        self._in_the_making = self.directory / "writing"

    @property
    def fields(self) -> dict[str, str]:
        """What the file says, by the first word of each line, and each word of its place by a name of its own."""
        lines = (line.partition(" ") for line in self.file.read_text().splitlines())
        fields = {name: value for name, _, value in lines}
        return fields | dict(zip(PLACE, fields["place"].split(), strict=True))

    @property
    def until_ms(self) -> int:
        """No ID of this Unix time or later has been given."""
        return int(self.fields["until"])

    @property
    def is_being_written(self) -> bool:
        return self._in_the_making.exists()

    def forge(self, **changed: str) -> None:
        """Changes fields, and closes the file with the checksum that belongs to them."""
        fields = self.fields | changed
        fields["place"] = " ".join(fields.pop(name) for name in PLACE)
        del fields["crc32"]
        body = "".join(f"{name} {value}\n" for name, value in fields.items())
        self.overwrite(f"{body}crc32 {zlib.crc32(body.encode()):08x}\n".encode())

    def overwrite(self, content: bytes) -> None:
        """Puts other bytes into the file, which stays the server's."""
        self.file.write_bytes(content)

    @contextmanager
    def disk_full(self) -> Iterator[None]:
        """No write succeeds: the name that the server writes under before it renames leads to /dev/full.

        The name is taken only while the server is not writing, so that it never renames the link.
        """
        self._cluster.wait_until(self._link_to_full, "between two writes of its reservation")
        try:
            yield
        finally:
            self._in_the_making.unlink()

    @contextmanager
    def hanging(self, file: str = "writing") -> Iterator[None]:
        """The next process that writes waits for the disk, uninterruptibly, until this ends or the process does."""
        in_the_making = self.directory / file

        def take_the_name() -> bool:
            try:
                os.mkfifo(in_the_making)
            except FileExistsError:
                return False
            return True

        self._cluster.wait_until(take_the_name, f"between two writes of {in_the_making}")
        shutil.chown(in_the_making, self.directory.owner(), self.directory.group())
        try:
            yield
        finally:
            # Who opens a pipe to write waits until somebody reads. Its name goes first, so that it is never renamed.
            pipe = os.open(in_the_making, os.O_PATH)
            in_the_making.unlink()
            os.close(os.open(f"/proc/self/fd/{pipe}", os.O_RDONLY | os.O_NONBLOCK))
            os.close(pipe)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """The server, which never runs as root, can't write to the directory."""
        self.directory.chmod(READ_ONLY)
        try:
            yield
        finally:
            self.directory.chmod(OURS)

    def _link_to_full(self) -> bool:
        try:
            self._in_the_making.symlink_to("/dev/full")
        except FileExistsError:
            return False
        return True
