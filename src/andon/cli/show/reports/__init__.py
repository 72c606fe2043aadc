"""Reports as documents: what they say, and how text, Markdown and HTML show it.

A report is made once as a document; each form shows any document, HTML with charts.
"""
