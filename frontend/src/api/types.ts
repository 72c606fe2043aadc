/** Short names for the types that are generated from the server's own description. */
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Snapshot = Schemas["Snapshot"];
export type Device = Schemas["DeviceStatus"];
export type Process = Schemas["Process"];
export type Why = Schemas["Why"];
export type Reason = Schemas["Reason"];
export type Health = Schemas["Health"];
export type Charts = Schemas["Charts"];
export type NodeCharts = Schemas["NodeCharts"];
export type ChangeList = Schemas["ChangeList"];
export type HistoryNote = Schemas["HistoryNote"];
export type NoteList = Schemas["NoteList"];
export type Usage = Schemas["Usage"];
export type UsageRow = Schemas["UsageRow"];
export type Week = Schemas["UserShares"];
export type Recent = Schemas["Recent"];
export type Session = Schemas["SessionState"];
export type Features = Schemas["Features"];
export type Check = Schemas["CardResult"];
export type CheckList = Schemas["CheckList"];
export type Alert = Schemas["Alert"];
export type Silence = Schemas["Silence"];
export type AlertEntry = Schemas["AlertEntry"];
export type Alerts = Schemas["AlertList"];
export type Board = Schemas["BoardShape"];
export type Holder = Schemas["HolderShape"];
export type BoardDevice = Schemas["LampShape"];
export type Verdict = NonNullable<BoardDevice["verdict"]>;
export type Rules = Schemas["RuleList"];
export type Rule = Schemas["RuleRow"];
export type Lease = Schemas["LeaseRow"];
export type LeaseGrant = Schemas["LeaseGrant"];
export type Leases = Schemas["LeaseListShape"];
export type Reservation = Schemas["Reservation"];
export type Waiting = Schemas["WaitingRow"];
export type Cordon = Schemas["CordonRow"];
export type Estimate = Schemas["EstimateAnswer"];
export type EstimateFit = Schemas["EstimatedFit"];
export type Job = Schemas["JobView"];
export type JobPage = Schemas["JobPage"];
export type JobDone = Schemas["JobDone"];
export type QueuePlace = Schemas["QueuePlace"];
export type JobLog = Schemas["JobLog"];
export type JobState = Schemas["JobState"];
export type ClusterState = Schemas["ClusterState"];
/** The live event `job`. */
export interface JobNews {
  jobs: Job[];
  gone: { user: string; label: string }[];
  whole: boolean;
  paused: boolean;
  counts: JobPage["counts"];
}
export type NodeList = Schemas["NodeList"];
export type NodeRow = Schemas["NodeRow"];
export type FleetItem = Schemas["FleetItem"];
export type FleetItems = Schemas["FleetItems"];
export type NodeCourses = Schemas["NodeCourses"];
export type RunList = Schemas["RunPage"];
export type RunEntry = Schemas["RunEntry"];
export type RunDetails = Schemas["RunDetails"];
export type RunCourses = Schemas["RunCourses"];
export type EstimateNames = Schemas["EstimateNames"];
export type RunMarks = Schemas["RunMarks"];
export type RunMark = Schemas["RunMark"];
export type RunUse = Schemas["RunUse"];
export type RunState = Schemas["RunState"];
/** The live event `nodes`: those that changed, or every one. */
export interface NodeNews {
  nodes: NodeRow[];
  gone: string[];
  whole: boolean;
}
export type RunCurve = Schemas["RunCurve"];
/** The live event `run`. */
export type RunUpdate = Pick<RunDetails, "id" | "state" | "read" | "duration_seconds" | "series" | "curves" | "uses" | "progress"> & {
  samples: number;
  since_bytes: number;
  marks: RunMark[];
};
