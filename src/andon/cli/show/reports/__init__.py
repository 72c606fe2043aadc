"""Reports as documents: their content, and how text, Markdown and HTML render it.

A report is made once as a document; each form shows any document, HTML with charts.
"""
