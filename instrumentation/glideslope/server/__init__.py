# SPDX-License-Identifier: Apache-2.0
"""The web server: viewer, dashboards, read-only store proxy, alerts, runbooks.

In: HTTP from browsers and Alertmanager. Out: files, JSON, relayed store answers. Binds loopback unless a token is asked
of everybody. Imports config and errors; the folders it serves are handed to it.
"""
