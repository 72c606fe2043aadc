"""What andon keeps on a real GPU, idle and under load; runs with pytest or without."""
