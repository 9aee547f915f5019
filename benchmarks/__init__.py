"""Speed, measured compared with other libraries: `python -m benchmarks`."""
