"""Many runs: studies, searches, statistics and reports."""
