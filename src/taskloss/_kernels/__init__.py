"""Compiled kernels. Nothing here is imported before it is needed: numba takes longer to load than small problems to solve."""
