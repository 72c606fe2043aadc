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
export type Usage = Schemas["Usage"];
export type UsageRow = Schemas["UsageRow"];
export type Recent = Schemas["Recent"];
export type Features = Schemas["Features"];
export type Alert = Schemas["Alert"];
export type Silence = Schemas["Silence"];
export type Alerts = Schemas["AlertList"];
export type Board = Schemas["BoardShape"];
export type Holder = Schemas["HolderShape"];
export type BoardDevice = Schemas["LampShape"];
export type Verdict = NonNullable<BoardDevice["verdict"]>;
export type Rules = Schemas["RuleList"];
export type Rule = Schemas["RuleRow"];
export type Lease = Schemas["LeaseRow"];
export type Leases = Schemas["LeaseListShape"];
export type Waiting = Schemas["WaitingRow"];
export type Cordon = Schemas["CordonRow"];
