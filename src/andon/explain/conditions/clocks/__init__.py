"""Why a device runs below its maximum clock, or its link below its maximum speed.

A power cap at the default limit counts as normal up to 35 % below the maximum clock (20 %
elsewhere): a healthy H200 at dense full load runs 27 % below it (`tests/recorded`).
"""
