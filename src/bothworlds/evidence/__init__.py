"""Evidence about arms: running sums of answered decisions, and the intervals they support."""
