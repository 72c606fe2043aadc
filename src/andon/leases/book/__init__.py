"""The lease book: claims on devices as kernel locks on small files, without a daemon.

- A lease is a file with an `flock`, which the kernel drops when its last holder dies. Readers test
  with a shared lock, which is never mistaken for a holder.
- The content is never rewritten. The end of a lease is the file's modification time; the holder
  keeps it as a duration on the boot clock and corrects the file after the wall clock was set.
- Every user can write here, so files are hostile input: every field is bounded, and one bad file
  costs only that file. A locked file that cannot be read may hold anything, so everything is
  withheld and its owner is named.
- A process is signalled only after proof: it started when the file says, it belongs to the file's
  owner, and it has the locked file open.
- The lease of a Python program or of a network caller is held by a process of its own (`holder`),
  which outlives the server and ends in time.
- A waiter is a locked ticket: a dead waiter loses its place. One that could be served and takes
  nothing stops holding up the others.
"""
