"""Compiled engine: tiles of repetitions, played round by round, and single repetitions replayed."""
