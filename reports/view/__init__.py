"""The pages of the report: the index, targets, requirements, and one page that draws any case."""
