/** Short names for the types that are generated from the server's own description. */
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Snapshot = Schemas["Snapshot"];
export type Device = Schemas["DeviceStatus"];
export type Sample = Schemas["Sample"];
export type Process = Schemas["Process"];
export type Why = Schemas["Why"];
export type Reason = Schemas["Reason"];
export type Health = Schemas["Health"];
export type Charts = Schemas["Charts"];
export type Uses = Schemas["Uses"];
export type Use = Schemas["Use"];
export type Recent = Schemas["Recent"];
export type Features = Schemas["Features"];
/** The server always says every field of these; what has a default may only be left out by others. */
export type Alert = Required<Schemas["Alert"]>;
export type Silence = Required<Schemas["Silence"]>;
export type Alerts = Omit<Schemas["AlertList"], "alerts" | "silences"> & { alerts: Alert[]; silences: Silence[] };
export type Board = Schemas["BoardShape"] & { holders?: Record<string, Holder[]> };
export type BoardDevice = Schemas["LampShape"];
export type Rules = Schemas["RuleList"];
export type Rule = Schemas["Rule"];
export interface Lease {
  id: string | null; user: string; uid: number; standing: "held" | "orphaned" | "unreadable";
  kind: "command" | "library" | "network" | null;
  devices: { uuid: string; index: number; memory_bytes: number | null }[];
  since: number | null; until: number | null; command: string | null; simulated: boolean;
  used_bytes: number; promised_bytes: number | null; utilization_percent: number | null;
  fence: number | null; pid: number | null; releasable: boolean; why_not: string | null;
}
export interface Waiting { position: number; user: string; gpus: number; memory_bytes: number | null; since: number; priority: number }
export interface Cordon { uuid: string; index: number | null; at: number; by: string; reason: string }
export interface Leases {
  at: number; leases: Lease[]; waiting: Waiting[]; cordons: Cordon[];
  book: { path: string; owner: string } | null; note: string | null;
}
export interface Holder { lease: string | null; user: string; until: number | null; memory_bytes: number | null; standing: string }
