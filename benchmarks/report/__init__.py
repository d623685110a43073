"""``benchmarks/RESULTS.md`` and its figures, made of the records: ``python -m benchmarks.report``.
"""
