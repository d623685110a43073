"""What there is to run, and why some of it cannot be run here."""

import ast
import importlib.util

from .records import BENCHMARKS, Job

# in the order of the report: the papers' tables, peers, when it pays, everything else
ORDER = (
    *("small", "large", "products", "million", "spg", "smo", "mklgl", "mwu", "lowrank"),
    *("compare", "groups", "proof", "shapley", "coverage", "compression", "pays", "defaults"),
    *("fits", "tuning"),
    *("auto", "edges", "foundations", "cross", "missing", "readers", "serving", "kill"),
    *("shape", "structure", "onnx_graphs", "versions", "mutants"),
    *("dask", "gpu", "gpu_lowrank", "gpu_grids"),
)
DEVICE = "needs a GPU, which is not here: `python -m benchmarks {} --out FOLDER` on one that has it"
ON_DEVICE = {
    ("gpu", "all"),
    ("gpu_lowrank", "all"),
    ("gpu_grids", "all"),
    ("tuning", "device"),
    ("products", "covertype"),
}
NEEDS = {"mutants": "cosmic_ray", "dask": "distributed", "onnx_graphs": "skl2onnx"}


def jobs(size):
    """All jobs of a size."""
    return [Job(name, part, size) for name in ORDER for part in parts(name)]


def parts(name):
    """Names of the parts of a benchmark, read and not imported: some need what is not installed."""
    if (name, "all") in ON_DEVICE:
        return ["all"]
    for node in ast.parse((BENCHMARKS / f"{name}.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STEPS":
            if isinstance(node.value, ast.Dict):
                return [key.value for key in node.value.keys]
            return [part.id for part in node.value.generators[0].iter.elts]
    raise ValueError(f"{name} has no STEPS, the table of its parts.")


def chosen(names, size):
    """Jobs by the names of benchmarks or of parts; all if none is named."""
    every = jobs(size)
    known = {job.benchmark for job in every} | {str(job) for job in every}
    for unknown in set(names) - known:
        raise SystemExit(f"There is no {unknown}: there are {', '.join(sorted(known))}")
    return [job for job in every if not names or {job.benchmark, str(job)} & set(names)]


def why_not(job):
    """Why a job cannot be run here, or None."""
    pair = job.benchmark, job.part
    if pair in ON_DEVICE:
        return DEVICE.format(job.benchmark)
    needed = NEEDS.get(job.benchmark)
    if needed and importlib.util.find_spec(needed) is None:
        return f"needs {needed}, which is not installed"
    return None
