"""Where examples come from: array libraries, rows on disk, Dask collections."""
