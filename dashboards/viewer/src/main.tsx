// SPDX-License-Identifier: Apache-2.0
// Start: fills the registries of @grafana/data, then mounts the pages.
import './publicPath';
import './page.css';

import { createRoot } from 'react-dom/client';

import { App } from './App';
import { registerFieldConfig } from './fields/registry';
import { registerTransformers } from './query/transform';

registerFieldConfig();
registerTransformers();
createRoot(document.getElementById('root')!).render(<App />);
