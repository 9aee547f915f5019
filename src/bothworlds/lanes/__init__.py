"""Kernels on one bandit or on a tile of repetitions: vectors, random numbers, compilation."""
