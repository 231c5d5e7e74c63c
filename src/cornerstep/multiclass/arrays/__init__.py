"""The multi-class SVM on torch tensors and other arrays: the same passes, on any device."""
