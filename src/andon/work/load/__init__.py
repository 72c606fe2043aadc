"""A load on a server that answers like OpenAI's: clients in processes of their own."""
