"""Files and folders: private, small, of the kernel, and what they are mounted from."""
