"""What `pamt speed` measures: ratios of times that are taken alternately."""
