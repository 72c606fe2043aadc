"""What is sent to Ray and what it answers, as values; pure."""
