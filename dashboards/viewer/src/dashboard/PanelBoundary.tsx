// SPDX-License-Identifier: Apache-2.0
// Keeps a panel that throws from taking the page down, and tells the frame; new data gets a new try.
import type { ReactNode } from 'react';
import { Component } from 'react';

interface Props {
  resetKey: unknown;
  onError: (message: string | undefined) => void;
  children: ReactNode;
}

export class PanelBoundary extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override componentDidCatch(error: unknown) {
    this.props.onError(error instanceof Error ? error.message : String(error));
  }

  override componentDidUpdate(previous: Props) {
    if (this.state.failed && previous.resetKey !== this.props.resetKey) {
      this.props.onError(undefined);
      this.setState({ failed: false });
    }
  }

  override render() {
    return this.state.failed ? null : this.props.children;
  }
}
