"""Why a device runs below its maximum clock, or its link below its maximum speed."""
