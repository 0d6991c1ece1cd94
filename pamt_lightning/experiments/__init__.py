"""Many runs: studies and what they come to."""
