"""What the routes and events say, and its description for OpenAPI."""
