"""What is remembered: series, how they are packed, tiers, who used what."""
