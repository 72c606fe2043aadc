"""Generates the metrics page, the dashboard and the rules from the catalogues."""
