"""The pictures of the documentation, and its page of benchmark results: ``python -m pictures``."""
