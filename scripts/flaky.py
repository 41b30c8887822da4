"""Reads the results of repeated test runs (JUnit XML, a file per run) and lists the tests that failed.

Exits with 1 if a test failed in any run.
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def main(directory: Path) -> int:
    runs, failures, first_message = Counter(), Counter(), {}
    files = sorted(directory.glob("[0-9]*.xml"))
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            if case.find("skipped") is not None:
                continue
            runs[name] += 1
            problems = [*case.iter("failure"), *case.iter("error")]
            if problems:
                failures[name] += 1
                first_message.setdefault(name, f"{file.name}: {problems[0].get('message', '')[:300]}")

    for name, count in failures.most_common():
        print(f"{name}: failed in {count} of {runs[name]} runs\n    {first_message[name]}")
    results = f"{len(files)} runs, {len(runs)} tests, {runs.total()} results"
    print(f"{results}: {failures.total()} failures of {len(failures)} tests")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
