"""What a study leaves for people: tables, figures, Markdown, CSV and HTML."""
