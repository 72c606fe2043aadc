"""What is made from the exporter's catalogue: the page, the dashboard, the rules."""
