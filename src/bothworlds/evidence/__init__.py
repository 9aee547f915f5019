"""Evidence about arms: running sums of told decisions, and the intervals they support."""
