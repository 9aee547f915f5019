"""Speed, measured beside other libraries: `python -m benchmarks`."""
