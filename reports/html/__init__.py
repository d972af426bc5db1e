"""The pages of the report: the index and a page per case, self-contained and capped in size."""
