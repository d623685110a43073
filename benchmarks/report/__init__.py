"""The page of results and its figures, made of the records: ``python -m benchmarks.report``."""
