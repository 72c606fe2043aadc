"""Everything that can be wrong, and why: conditions, their evidence, reasons and lamps."""
