# SPDX-License-Identifier: Apache-2.0
"""The `glideslope` command: a table of subcommands, each imported only when it is called.

In: argv. Out: printed text and exit codes: 0 success, 1 a GlideslopeError (message says what to do), 2 wrong usage;
`run` gives back the exit code of the command it ran. Built on click because its groups can load commands lazily,
so that `glideslope run` on a training node never imports the web server.
"""

from __future__ import annotations

import sys
from importlib import import_module

import click

from glideslope._version import __version__
from glideslope.errors import GlideslopeError

# name -> (module, attribute, one line of help)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "up": ("glideslope.cli.stack", "up", "Start the stack: collector, stores, alerting, server."),
    "down": ("glideslope.cli.stack", "down", "Stop the stack."),
    "status": ("glideslope.cli.stack", "status", "Say what runs, where, and what restarted."),
    "doctor": ("glideslope.cli.stack", "doctor", "Check this machine for what the stack needs."),
    "build": ("glideslope.cli.stack", "build", "Build the native programs of the stack."),
    "serve": ("glideslope.cli.serve", "serve", "Serve the viewer, the alerts and the read-only store proxy."),
    "render": ("glideslope.cli.render", "render", "Render dashboards, rules and names from Jsonnet."),
    "run": ("glideslope.cli.run", "run", "Run a training command with instrumentation."),
    "demo": ("glideslope.cli.demo", "demo", "Train a small GPT and watch it live."),
    "sync": ("glideslope.cli.run", "sync", "Ship what a dead process left in its spool."),
}


class LazyGroup(click.Group):
    """A click group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command of the table, in its order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or None when the table does not name it."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("glideslope"):
                raise
            raise click.ClickException(
                f"`glideslope {cmd_name}` needs the package {error.name!r}: pip install 'glideslope[stack]'"
            ) from error
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="glideslope")
def app() -> None:
    """Open observability for training foundation models."""


def main() -> None:
    """Entry point of the console script: run the command, turn GlideslopeError into a message and exit code 1."""
    try:
        app(prog_name="glideslope")
    except GlideslopeError as error:
        click.echo(f"glideslope: {error}", err=True)
        sys.exit(1)
