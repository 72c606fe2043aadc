/** Pages that the first one does without: a script of their own, loaded right after it. */
export { ChartsOfDevice } from "../charts/ChartsOfDevice";
export { ChartsPage } from "./ChartsPage";
export { DayAhead } from "./DayAhead";
export { EstimatePage } from "./EstimatePage";
export { FleetCharts } from "./FleetCharts";
export { FleetPage } from "./FleetPage";
export { FleetWeek } from "./FleetWeek";
export { HealthPage } from "./HealthPage";
export { JobsPages } from "./jobs";
export { ProcessPage } from "./ProcessPage";
export { RunsPages } from "./runs";
export { UserPage } from "./UserPage";
export { WeekAhead } from "./WeekAhead";
