"""A thousand registrars and three members of etcd on one machine: are renewals in time, and what do they cost?

The registrars are one process, registry/examples/registrars.rs, which runs the protocol as servers do, each with a
number of its own in one fleet. It has fewer connections than a thousand servers would.
"""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from report import Section, Target, at_most
from strict import TICKS_PER_SECOND

from harness.etcd import Etcd

MEMBERS = 1_000
# A tenth of how far a grant reaches.
BOUND_MS = 3_000
# As docs/operations.md says, but for an hour.
COMPACTION = ("--auto-compaction-mode=periodic", "--auto-compaction-retention=5s")


def cpu_seconds(pid: int) -> float:
    """Processor time of one process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def status(etcd: Etcd) -> tuple[int, int]:
    """etcd's revision, which counts writes, and the size of its largest database in bytes."""
    all_members = [each["Status"] for each in json.loads(etcd.ctl("endpoint", "status", "--write-out=json"))]
    revisions = [each["header"]["revision"] for each in all_members]
    return max(revisions), max(each["dbSize"] for each in all_members)


def measure(seconds: int) -> tuple[Section, list[Target]]:
    with Etcd(members=3, flags=COMPACTION) as etcd:
        command = [os.environ["ID_GEN_REGISTRARS"], etcd.endpoints, str(MEMBERS), str(seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as registrars:
            joined = said(registrars)
            (writes_before, _), began = status(etcd), time.perf_counter()
            cpu_before = [cpu_seconds(member.pid) for member in etcd.members]
            # Until it was compacted a few times, and what that freed is used again.
            time.sleep(seconds / 2)
            _, size_before = status(etcd)
            renewals = said(registrars)
            passed = time.perf_counter() - began
            cpu = [cpu_seconds(member.pid) - before for member, before in zip(etcd.members, cpu_before, strict=True)]
            writes, size = status(etcd)
    late = MEMBERS - renewals["holding"] + renewals["late"]
    rows = [
        ("all hold a number after", f"{joined['joined_s']:.1f} s"),
        ("renewals", f"{renewals['renewals']:,}"),
        ("grants that were not renewed in time", f"{late:,}"),
        ("requests without an answer, which were repeated", f"{renewals['failures']:,}"),
        ("from due to acknowledged: median", f"{renewals['median_ms']:.1f} ms"),
        ("p99", f"{renewals['p99_ms']:.1f} ms"),
        ("slowest", f"{renewals['slowest_ms']:.1f} ms"),
        ("least that was left of a grant when it was renewed", f"{renewals['least_left_ms'] / 1e3:.1f} s"),
        ("etcd: writes a second", f"{(writes - writes_before) / passed:.0f}"),
        ("etcd: processors busy, each member", ", ".join(f"{each / passed:.2f}" for each in cpu)),
        ("etcd: size of the database after half of them, compacted every 5 s", f"{size_before / 1e6:.2f} MB"),
        ("etcd: size at the end", f"{size / 1e6:.2f} MB"),
    ]
    title = f"A thousand registrars, default terms, three members of etcd on the same machine, {seconds} s"
    return Section(title, ("", ""), rows), [
        at_most("a thousand registrars: grants that were not renewed in time", late, bound=0),
        at_most("a thousand registrars: size of etcd at the end over that after half", size / size_before, bound=1.1),
        at_most(
            "a thousand registrars: p99 of a renewal over a tenth of a grant", renewals["p99_ms"] / BOUND_MS, bound=1
        ),
    ]


def said(registrars: "subprocess.Popen[str]") -> dict[str, Any]:
    """The next line of what the program says."""
    line = registrars.stdout.readline() if registrars.stdout else ""
    if not line:
        raise RuntimeError(f"{registrars.args} ended without saying what it found")
    return json.loads(line)
