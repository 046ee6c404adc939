"""Run every benchmark, or those named, each in a process of its own."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
NOT_BENCHMARKS = {"__init__", "__main__", "common", "drawing", "independent"}


def main(names: list[str]) -> int:
    known = sorted(p.stem for p in HERE.glob("*.py") if p.stem not in NOT_BENCHMARKS)
    unknown = [n for n in names if n not in known]
    if unknown:
        raise SystemExit(f"There is no benchmark named {unknown[0]!r}; choose from: {', '.join(known)}.")
    failed = 0
    for name in names or known:
        print(f"== {name}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE.parent, check=False).returncode
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
