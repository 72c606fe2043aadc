"""The payloads of routes and events, and their description for OpenAPI."""
