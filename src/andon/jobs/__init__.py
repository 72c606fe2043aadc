"""The queue as it runs: its folder, its dispatcher, and the supervisors of its jobs.

    submit -> jobs/12/job.json -> dispatcher (one lock) -lease, descriptors-> supervisor -> command
                                  samples, records, starts                    claim, end.json

- The folder is the queue: files are written whole and never rewritten, and a job's state follows
  from them alone (`rules.states`).
- A supervisor publishes its claim with `link`, which only one can do, locked and complete; its
  command waits behind a pipe until then. If it dies before the claim, nothing has started. If it
  dies after it, the job is running while the claim is locked or the command's session lives, then
  lost. If a container is still running, another supervisor locks the same claim.
- The dispatcher takes the lease with the supervisor as its owner and sends it the locked
  descriptors; the command inherits them too.
- The dispatcher's sampler records all jobs. The next dispatcher continues the records of one that
  was killed, and completes those of jobs that ended meanwhile.
- A scan reads only folders whose time changed; `index.json` is its cache between commands, and
  `bell` is touched with every change.
"""
