"""The compiled sweeps of the kernel SVM."""
