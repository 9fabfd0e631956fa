"""The litmus language: tiny programs for a few PEs, an outcome, and what each profile says of it."""
