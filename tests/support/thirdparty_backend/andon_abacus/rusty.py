"""A backend whose library is not installed."""

import a_library_that_is_not_there  # type: ignore[import-not-found]

Rusty = a_library_that_is_not_there.Rusty
