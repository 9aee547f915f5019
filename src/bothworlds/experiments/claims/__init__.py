"""Claims of the experiments: statements with their sources, the rules that judge them, verdicts."""
