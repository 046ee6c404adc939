"""Kernels in numba, imported only where they are about to run: `import taskloss` needs no compiler."""
