"""Golden set: what users can see, recorded, and the program that records it."""
