"""andon in a notebook: `%load_ext andon`, then `%andon` and `%%andon`."""
