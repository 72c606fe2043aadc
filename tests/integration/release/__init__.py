"""What is released: packages, andon.pyz, upgrades."""
