/** All charts of one device; what draws them is loaded after the first page. */
import { LaterPage } from "../pages/LaterPage";
import type { Props } from "./ChartsOfDevice";

export function DeviceCharts(props: Props) {
  return <LaterPage show={({ ChartsOfDevice }) => <ChartsOfDevice {...props} />} />;
}
