"""The methods: how each trains, stops, predicts and is saved."""
