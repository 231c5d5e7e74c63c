"""The compiled sweeps of kernels: squared distances, and sums of kept columns."""
