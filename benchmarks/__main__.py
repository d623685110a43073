"""Run a benchmark by name."""

import argparse
import importlib
import pkgutil
from pathlib import Path

import benchmarks


def main():
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in ("common", "__main__"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=benchmarks.__doc__)
    parser.add_argument("name", choices=names)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the JSON")
    chosen = parser.parse_args()
    importlib.import_module(f"benchmarks.{chosen.name}").main(chosen.out)


if __name__ == "__main__":
    main()
