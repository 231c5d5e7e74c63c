"""Multi-class SVMs: every max-dot-over-simplex loss, its envelopes, linear and with kernels."""
