/** Pages that the first one does without: a script of their own, loaded right after it. */
export { ChartsOfDevice } from "../charts/ChartsOfDevice";
export { ChartsPage } from "./ChartsPage";
export { DayAhead } from "./DayAhead";
export { EstimatePage } from "./EstimatePage";
export { HealthPage } from "./HealthPage";
export { ItemsPage } from "./ItemsPage";
export { JobsPages } from "./jobs";
export { RunsPages } from "./runs";
