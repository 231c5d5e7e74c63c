"""The boosting methods, and the solvers of their master problems."""
