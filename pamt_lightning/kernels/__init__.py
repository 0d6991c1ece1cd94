"""What makes the equations fast, and lets several processes share them."""
