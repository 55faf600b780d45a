# SPDX-License-Identifier: Apache-2.0
"""`python -m glideslope` is the `glideslope` command."""

from glideslope.cli import main

if __name__ == "__main__":
    main()
