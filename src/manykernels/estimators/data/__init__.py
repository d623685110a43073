"""The way of data: tables to problems, and results to scores."""
