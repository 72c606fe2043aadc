"""The server: the board, REST and live events, over one sampler."""
