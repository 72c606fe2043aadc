"""Contracts are as quick as units."""

from tests.support import new_databases as new_databases
