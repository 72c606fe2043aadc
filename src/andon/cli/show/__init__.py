"""How values look as text: tables, cells, colours; pure, so that golden files can hold it."""
