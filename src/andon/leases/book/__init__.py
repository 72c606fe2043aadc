"""The lease book: claims on devices as kernel locks on small files, without a daemon."""
