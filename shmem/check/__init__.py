"""Checking programs: the explorer and its strategies, the litmus language, reports of failures."""
