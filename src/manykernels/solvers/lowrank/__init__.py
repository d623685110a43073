"""Solvers for kernels of low rank, which work on the factors."""
