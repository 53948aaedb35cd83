"""Sums on a graphics processor: CUDA C++ in the arithmetic of the CPU tiers, bit for bit."""
