"""Everything that can be wrong, a file each by what it is about; and what those files share."""
