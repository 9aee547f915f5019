"""Experiments on what came after the paper: one file each, as in `bothworlds.experiments.paper`."""
