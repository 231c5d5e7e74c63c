"""What everything may use: vectors, matrices, rounding, compiled functions, the writer of files."""
