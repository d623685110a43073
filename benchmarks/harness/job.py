"""One job, in a process that is forked for it from one that has imported everything."""

import datetime
import importlib
import importlib.metadata
import inspect
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import time
import traceback
import warnings
from multiprocessing.connection import wait

import numpy as np

from ..common import ABSENT, call, describe_machine, megabytes
from .plan import split_by
from .records import TABLES, Record, commit, modules_loaded

SEED, LONGEST = 0, 200  # characters of a constant: longer ones are scripts
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def in_child(job, log, partial, cores, on_gpu):
    """Run a job on some cores, and on the GPU or without, with all that it prints in a file;
    `partial` is for `common.once`.
    """
    os.setsid()  # so that it can be ended with all that it started
    os.sched_setaffinity(0, cores)
    threading.Thread(target=end_with_parent, daemon=True).start()
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for descriptor in (1, 2):
        os.dup2(stream, descriptor)
    os.environ["MANYKERNELS_PARTIAL"] = str(partial)
    if not on_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    code = 1
    try:
        run(job, on_gpu)
        code = 0
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # without waiting for workers of joblib, which may never end


def end_with_parent():
    """However the run ends, also by ``kill -9``, its job does not go on alone."""
    wait([multiprocessing.parent_process().sentinel])
    os.killpg(0, signal.SIGKILL)


def run(job, on_gpu=False):
    """Run a job and keep its record."""
    benchmark, part, size = job.benchmark, job.part, job.size
    module = importlib.import_module(f"benchmarks.{benchmark}")
    if size == "quick":
        for name, value in module.QUICK.items():
            if not hasattr(module, name):
                raise AttributeError(
                    f"{benchmark} has no constant {name}, which QUICK makes small."
                )
            setattr(module, name, value)
    if job.piece:
        narrow(module, split_by(benchmark, part), job.piece)
    warnings.simplefilter("ignore")
    random.seed(SEED)
    began = time.perf_counter()
    job.key_of(None)  # reads all files once and for all: they may change while it runs
    rows = plain(call(module.STEPS[part], size == "full"))
    modules = modules_loaded()
    Record(
        benchmark=benchmark,
        part=part,
        size=size,
        piece=job.piece,
        key=job.key_of(modules),
        modules=modules,
        commit=commit(),
        date=datetime.date.today().isoformat(),
        status="done" if rows else "skipped",
        reason=without(rows),
        seed=SEED,
        seconds=round(time.perf_counter() - began, 2),
        processor_seconds=round(processor(), 2),
        peak_mb=round(peak(), 1),
        machine=describe_machine() | (device() if on_gpu else {}),
        versions={name: importlib.metadata.version(name) for name in PACKAGES},
        constants=constants(module),
        title=" ".join((inspect.getdoc(step_of(module, part)) or "").split()),
        rows=rows,
    ).save()


def narrow(module, constant, piece):
    """Leave of a tuple or mapping of a module the one value that a piece is named after."""
    every = getattr(module, constant)
    if isinstance(every, dict):
        left = {key: value for key, value in every.items() if str(key) == piece}
    else:
        left = tuple(value for value in every if str(value) == piece)
    setattr(module, constant, left)


def step_of(module, part):
    """The function of a part, also if some of its arguments are given already."""
    step = module.STEPS[part]
    return getattr(step, "func", step)


def without(rows):
    """What figures were made without, in words; nothing if all was here."""
    absent = ", ".join(sorted(ABSENT))
    if not rows:
        return f"needs data that are not here: {absent}" if absent else "nothing to measure here"
    return f"without data that are not here: {absent}" if absent else ""


def device():
    """The GPU."""
    import torch

    return {"GPU": torch.cuda.get_device_name()}


def processor():
    """Seconds of the processor, of this process and its children."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def peak():
    """Megabytes of this process or of its largest child, whichever had more."""
    return max(megabytes("VmHWM"), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)


def constants(module):
    """The constants of a module that are numbers, words or collections of them."""
    found = {}
    for name, value in vars(module).items():
        if name.isupper() and name not in ("STEPS", "QUICK", *TABLES):
            try:
                value = plain(value)
                text = json.dumps(value)
            except TypeError:
                continue
            if len(text) <= LONGEST:
                found[name] = value
    return found


def plain(value):
    """The same in what JSON knows, numbers to six digits; TypeError for anything else."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else str(float(value))
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{type(value).__name__} is no part of a record")
