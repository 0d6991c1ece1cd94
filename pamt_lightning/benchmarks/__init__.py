"""`pamt benchmark`: ratios of times that are measured side by side."""
