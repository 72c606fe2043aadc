/** Where the page of each thing is. */
export const deviceLink = (uuid: string): string => `#/device/${encodeURIComponent(uuid)}`;
export const alertLink = (id: string): string => `#/alerts/${encodeURIComponent(id)}`;
/** `user` where root looks at another user's. */
export const jobLink = (job: number | string, user?: string): string => `#/jobs/${encodeURIComponent(job)}${user ? `?user=${encodeURIComponent(user)}` : ""}`;
export const leaseLink = (id: string): string => `#/leases/${encodeURIComponent(id)}`;
export const runLink = (...ids: string[]): string => `#/runs/${ids.map(encodeURIComponent).join(",")}`;
/** A process is its pid and when it started: pids are used again. */
export const processLink = (one: { pid: number; started: number | null }): string => `#/process/${one.pid}${one.started === null ? "" : `-${one.started}`}`;
export const userLink = (name: string): string => `#/user/${encodeURIComponent(name)}`;
