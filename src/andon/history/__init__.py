"""History: how readings are written, kept and packed, and who used what."""
