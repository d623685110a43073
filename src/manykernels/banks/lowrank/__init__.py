"""Kernels of low rank, by their factors."""
