"""Runs recorded before the package was rearranged, and the program that recorded them."""
