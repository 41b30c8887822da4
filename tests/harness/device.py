"""Servers whose data directory is on a file system of its own, so that its disk can be copied as a whole: as a snapshot
of a volume or of a virtual machine does it."""

import os
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType

from harness.cluster import Cluster

# Sparse: more than the WAL of a server may take.
IMAGE_BYTES = 2 << 30


def are_possible() -> bool:
    """Whether a file system of a file can be mounted here."""
    return os.geteuid() == 0 and Path("/dev/loop-control").exists()


class OnDevice(Cluster):
    """A server on a device of its own. Its clone is a copy of the device, taken while the original stands still."""

    data_directory = "device/data"

    @property
    def _device(self) -> Path:
        return self.data.parent

    @property
    def _image(self) -> Path:
        return self.base / "image"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._unmount()

    def init(self) -> None:
        if self._cloned is None:
            self._mount()
        super().init()

    def copy_files(self, other: Cluster) -> None:
        self._mount()
        super().copy_files(other)

    def copy_disk(self, other: "OnDevice") -> None:
        """Copies the device of another server, which has stopped or stands still."""
        # Everything that was written is on the device.
        subprocess.run(["sync", "--file-system", other.data], check=True)
        subprocess.run(["cp", "--sparse=always", other._image, self._image], check=True)
        self._mount()
        self._forget_process()

    def destroy(self) -> None:
        self._forget_memory()
        self._unmount()
        super().destroy()

    def _clone(self, other: Cluster) -> None:
        assert isinstance(other, OnDevice)
        with other.paused() if other.running else nullcontext():
            self.copy_disk(other)

    def _mount(self) -> None:
        if not self._image.exists():
            with self._image.open("wb") as image:
                image.truncate(IMAGE_BYTES)
            subprocess.run(["mkfs.ext4", "-q", self._image], check=True)
        self._device.mkdir()
        subprocess.run(["mount", "-o", "loop", self._image, self._device], check=True)
        shutil.chown(self._device, self.base.owner(), self.base.group())

    def _unmount(self) -> None:
        if self._device.is_mount():
            subprocess.run(["umount", self._device], check=True)
