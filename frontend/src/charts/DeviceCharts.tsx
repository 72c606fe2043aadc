/** All charts of one device; what draws them is loaded after the first page, whose other parts do not wait. */
import { useLater } from "../pages/LaterPage";
import type { Props } from "./ChartsOfDevice";

export function DeviceCharts(props: Props) {
  const pages = useLater();
  return pages ? <pages.ChartsOfDevice {...props} /> : <p className="dim charts-to-come">The charts are being loaded.</p>;
}
