"""Demonstration of the decision service: four live experiments, an attack, and policies compared.

``bothworlds demo`` runs it. Tsallis-INF decides through a real service, over HTTP; Thompson
sampling and UCB1 decide in the demonstration's own process, on the same traffic.
"""
