"""Fast forms of plain matrix operations, and their division among processes; see README.md."""
