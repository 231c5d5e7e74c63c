"""The multi-class SVM on rows that are not in memory: on disk, or on a cluster."""
