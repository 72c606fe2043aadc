/** Catches what goes wrong while a page is drawn: the rest stays, and it is tried again. */
import { Component, type ReactNode } from "react";
import { live } from "../live/store";

interface Props {
  /** Another page is another try. */
  place: string;
  children: ReactNode;
}

export class Boundary extends Component<Props, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };
  private left: (() => void) | null = null;
  private wasLive = true;

  static getDerivedStateFromError(error: unknown): { error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override componentDidMount(): void {
    this.left = live.subscribe(() => {
      const isLive = live.get().link.state === "live";
      if (isLive && !this.wasLive && this.state.error) this.setState({ error: null });
      this.wasLive = isLive;
    });
  }

  override componentWillUnmount(): void {
    this.left?.();
  }

  override componentDidUpdate(before: Props): void {
    if (before.place !== this.props.place && this.state.error) this.setState({ error: null });
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    const away = live.get().link.state === "away";
    return (
      <section className="notice bad" role="alert">
        <h1>This page cannot be shown</h1>
        <p>{away ? "The server is away; this page retries when it is back." : "An error occurred in the board."}</p>
        <p className="dim">{error.message}</p>
        <p className="buttons">
          <button type="button" onClick={() => this.setState({ error: null })}>Try again</button>
          <button type="button" onClick={() => location.reload()}>Reload</button>
        </p>
      </section>
    );
  }
}
