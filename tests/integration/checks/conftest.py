"""Cards behind both stand-in libraries."""

from tests.support.cuda import cuda

__all__ = ["cuda"]
