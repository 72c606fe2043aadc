"""Reports as documents: what they say, and how text, Markdown and HTML show it."""
