"""Solvers around a solver: they begin with a part of the problem, or where an earlier run ended."""
