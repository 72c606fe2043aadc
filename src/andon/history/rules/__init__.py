"""History: series, how they are packed, tiers, and who used what."""
