/** A device and a snapshot as the server sends them, for tests. */
export const device = (more: object) => ({
  uuid: "GPU-1", index: 1, label: "1", vendor: "x", name: "X", pci: null, state: "ok", reason: null, hint: null, since: 10,
  parent: null, memory_kind: "device", memory_total_bytes: 1, memory_unattributed_bytes: null, visible: true,
  cuda_index: null, limits: {}, last_users: [], pods: [], sample: { utilization_percent: 50, throttle: [] }, missing: {}, processes: [], ...more,
}) as never;
export const snapshot = (at: number, devices: unknown[], boot = "b") => ({ at, devices, boot, node: "n", simulated: false, versions: {}, host: {}, faults: [] }) as never;
