"""Experiments on later work: one file each, as in `bothworlds.experiments.paper`."""
