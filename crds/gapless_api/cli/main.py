"""The command ``gapless``: finds the subcommands of installed packages and ends with the right exit code.

Must not know any subcommand: packages register theirs as entry points of the group ``gapless.commands``, so an image
with only the sender has no Spark commands, and ``--help`` of one command loads no other.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import NoReturn

import click

from gapless_api.base.errors import ConfigurationError, GaplessError, error_outcome
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.unexpected import calls_of, unexpected_sentence
from gapless_api.cli.installed_commands import InstalledCommands
from gapless_api.cli.optional_packages import missing_package
from gapless_api.cli.standard_streams import OutputClosedError, guard_standard_streams, settle_output

_PLUGIN = "kubectl-gapless"


@click.group(cls=InstalledCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(metadata.version("gapless-api"), prog_name="gapless")
def gapless() -> None:
    """Find events that were lost on a one-way link, carry one small file back, and resend them.

    \b
    Close gaps, on the receiving side:
        gapless scan        bundle of missing events, from the gap detector
        gapless audit       bundle of missing events, from the events themselves
    and on the sending side:
        gapless resend      send the events of a bundle again, over the diode
        gapless inventory   list what exists, so that an audit knows what to expect
    Keep topics, and bring them back:
        gapless archive     copy topics to a folder or a bucket
        gapless restore     write them back to Kafka
    Copy topics live to another cluster:
        gapless mirror      exactly once; gapless doctor finds what stands in its way

    \b
    Exit codes: 0        done, or nothing to do
                2        bad configuration
                3        source unreachable or stalled
                4        finished, but some events could not be delivered or read (listed)
                5        link failed
                10       with --exit-code: something is missing
                130/143  stopped by a signal, progress saved
    """  # noqa: D301 -- click's own paragraph mark


@gapless.command("help")
@click.argument("command", nargs=-1)
def show_help(command: tuple[str, ...]) -> None:
    """Show the help of COMMAND, as gapless COMMAND --help does."""
    gapless.main([*command, "--help"], prog_name="gapless", standalone_mode=False)


@gapless.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    For bash, add  eval "$(gapless completion bash)"  to ~/.bashrc.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 -- only this command needs it

    completion_class = get_completion_class(shell)
    if completion_class is None:  # pragma: no cover -- click.Choice has checked it
        raise ConfigurationError(f"There is no completion for {shell}.")
    click.echo(completion_class(gapless, {}, "gapless", "_GAPLESS_COMPLETE").source())


def program() -> NoReturn:
    """Run ``gapless``, and end this process with its exit code.

    Threads are joined and exit handlers run, but the finalization of Python and of C++ libraries is skipped: a thread
    that still writes a progress line, or a thread of a C++ library, could abort the process there, with exit code 134.
    """
    try:
        main()
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else ExitCode.DONE
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 -- joins threads, as the finalization does
        atexit._run_exitfuncs()  # noqa: SLF001 -- as multiprocessing does before os._exit
        sys.stdout.flush()
    finally:
        os._exit(code)


def _arguments(called: list[str]) -> list[str]:
    """Return the arguments of ``gapless``; as kubectl's plugin ``kubectl-gapless`` it is ``gapless cluster``."""
    program, *arguments = called
    return ["cluster", *arguments] if Path(program).name == _PLUGIN else arguments


def main() -> NoReturn:
    """Run ``gapless`` and exit; an error is one sentence on standard error and the exit code of its class."""
    guard_standard_streams()
    try:
        status = gapless.main(args=_arguments(sys.argv), prog_name="gapless", standalone_mode=False)
        sys.stdout.flush()
    except GaplessError as error:
        settle_output()
        click.echo(f"gapless: {error}", err=True)
        sys.exit(error_outcome(error).exit_code)
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            _exit_unexpected(error)
        settle_output()
        click.echo(f"gapless: {missing}", err=True)
        sys.exit(ExitCode.BAD_CONFIGURATION)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(ExitCode.BAD_CONFIGURATION)
    except click.ClickException as error:
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "gapless"
        problem = " ".join(error.format_message().split()).rstrip(".")
        click.echo(f"gapless: {problem}; see {command} --help.", err=True)
        sys.exit(ExitCode.BAD_CONFIGURATION)
    except click.Abort:
        sys.exit(ExitCode.INTERRUPTED)
    except OutputClosedError:
        settle_output()
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 -- a defect
        _exit_unexpected(error)
    sys.exit(status if isinstance(status, int) else ExitCode.DONE)


def _exit_unexpected(error: Exception) -> NoReturn:
    """Describe an exception that no rule expects, and exit. Its text may have the content of a record."""
    settle_output()
    for call in calls_of(error):
        click.echo(f"  {call}", err=True)
    click.echo(f"gapless: {unexpected_sentence('The command has ended', error)}", err=True)
    sys.exit(1)
