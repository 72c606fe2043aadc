"""Facts with evidence: what explanations are made of, and how they are phrased."""
