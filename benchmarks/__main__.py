"""Run a benchmark by name."""

import argparse
import importlib
import warnings
from pathlib import Path

import benchmarks

from .common import run_parts
from .harness.plan import ORDER


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("name", choices=sorted(ORDER))
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the JSON")
    parser.add_argument(
        "--full",
        action="store_true",
        help="also the parts that take long, where the benchmark has some",
    )
    parser.add_argument(
        "--part",
        action="append",
        dest="parts",
        help="this part only, where the benchmark has some; repeat for more",
    )
    chosen = parser.parse_args()
    module = importlib.import_module(f"benchmarks.{chosen.name}")
    warnings.simplefilter("ignore")
    run_parts(chosen.name, module.STEPS, chosen.parts, chosen.out, chosen.full)


if __name__ == "__main__":
    main()
