"""Everything that can be wrong: one file per condition, in folders by subject."""
