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
export type Alert = Schemas["Alert"];
export type Alerts = Schemas["Alerts"];
export type Silence = Schemas["Silence"];
export type Board = Schemas["Board"];
export type BoardDevice = Schemas["BoardDevice"];
export type Rules = Schemas["Rules"];
export type Rule = Schemas["Rule"];
