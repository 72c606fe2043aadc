"""What runs used, side by side, and what to improve in them."""
