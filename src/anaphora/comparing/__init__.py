"""Many recipes on one text, under one budget, by one ruler, in one table."""
