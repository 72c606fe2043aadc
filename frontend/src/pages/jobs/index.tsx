/** The pages of jobs: the queue, and one job. */
import { JobDetails } from "./JobDetails";
import { JobList } from "./JobList";

export function JobsPages({ name, search, query }: { name: string | null; search: string; query: URLSearchParams }) {
  return name ? <JobDetails key={`${name} ${query.get("user")}`} number={name} user={query.get("user") ?? ""} /> : <JobList search={search} query={query} />;
}
