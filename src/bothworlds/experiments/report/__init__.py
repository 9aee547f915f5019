"""Report of experiments: figures, tables, files of results, and one HTML page about them."""
