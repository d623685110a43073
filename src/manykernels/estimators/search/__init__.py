"""Many models over one set of kernels: paths, grids, and how one of them is chosen."""
