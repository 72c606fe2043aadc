"""Facts with evidence: what explanations are made of, and how they are phrased.

A `view` is one device and its past; every number in a sentence comes from evidence.
"""
