"""What the tests of full disks share: a small disk in memory, which only root may mount, and what is written to it."""

from __future__ import annotations

import random
import shutil
import subprocess
from contextlib import contextmanager

import pytest
from storing import ALICE

from memtrace.errors import StoreError
from memtrace.model import Record

MEGABYTE = 1 << 20


@contextmanager
def small_disk(tmp_path, megabytes):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if mount is None:
        pytest.skip("there is no `mount` here")
    command = [mount, "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run([shutil.which("umount"), "--lazy", str(disk)], check=True)


def fill(disk):
    """Leave not a byte."""
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        for size in (MEGABYTE, 4096, 1):
            try:
                while ballast.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


def make_room(disk):
    """Take away what filled it."""
    (disk / "ballast").unlink()


def writes(store, record):
    try:
        store.add(record)
    except StoreError:
        return False
    return True


def fact(number):
    """One that no store can make smaller."""
    text = random.Random(number).randbytes(50_000).hex()
    return Record(ALICE, f"{number} {text}", created_at=1.0 + number)
