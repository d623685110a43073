"""All benchmarks in one run: ``python -m benchmarks.harness``.

A *job* is one part of one benchmark at one size (``quick`` or ``full``), run in a process of its
own. What it found becomes a *record*: a JSON file under ``benchmarks/results/SIZE`` with the rows,
the constants, the seed, the machine, the commit, the seconds and the peak memory, and the same as
Markdown beside it. A record whose key (a digest of the source of the package and of the benchmark,
and the size) is still that of the files is not made again, so that a run that was killed goes on
where it was. `benchmarks.report` makes ``benchmarks/RESULTS.md`` of the records.

A benchmark is a module of `benchmarks` with ``STEPS``, its parts by name, and ``QUICK``, the
constants of the module that are smaller in a quick run.
"""
