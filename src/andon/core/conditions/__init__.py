"""What can be wrong: the catalogue of rules, their figures, their judgement and their words."""
