"""`andon mcp`: what commands print, as tools of an assistant over the Model Context Protocol."""
