"""Benchmarks: ratios taken side by side in one run, printed as tables and kept as JSON. ``python -m
benchmarks NAME``.
"""
