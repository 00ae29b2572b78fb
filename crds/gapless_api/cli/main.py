"""Owns the command ``gapless``: finds the subcommands of installed packages and ends with the right exit code.

Must not know any subcommand: packages register theirs as entry points of the group ``gapless.commands``, so an image
with only the sender has no Spark commands, and ``--help`` of one command loads no other.
"""

from __future__ import annotations

import atexit
import codecs
import os
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from gapless_api.base.errors import ConfigurationError, GaplessError, error_outcome
from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.settings import Choice, resolve
from gapless_api.base.unexpected import calls_of, unexpected_sentence
from gapless_api.base.variables import OWN_PREFIX
from gapless_api.cli.installed_commands import InstalledCommands
from gapless_api.cli.optional_packages import missing_package
from gapless_api.cli.standard_streams import OutputClosedError, guard_standard_streams, settle_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_api.base.settings import Resolved, Setting, SettingsTable


_SPELLED = "gapless.spelled"
"""The key of a context's names of settings as they were written on the command line."""
_PLUGIN = "kubectl-gapless"
_BEGIN_BYTES = 512
_GZIP = b"\x1f\x8b"


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


class AliasedOption(click.Option):
    """An option with several names; ``--help`` and the reference show the first."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the name, the placeholder and the text for ``--help``."""
        names, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


class SettingsCommand(click.Command):
    """A command whose options are settings: ``--help`` lists them by group, and a bare switch means "true"."""

    table: SettingsTable | None = None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse `args`; a switch takes the next argument as its value only if that is true or false."""
        settings = self.table.settings if self.table else ()
        switches = {option for setting in settings if setting.is_switch for option in setting.options}
        names = {option: setting.name for setting in settings for option in setting.options}
        written = [arg.partition("=")[0] for arg in args]
        ctx.meta[_SPELLED] = {names[option]: option.removeprefix("--") for option in written if option in names}
        expanded: list[str] = []
        for index, arg in enumerate(args):
            following = args[index + 1].lower() if index + 1 < len(args) else ""
            bare = arg in switches and "--" not in args[:index] and following not in {"true", "false"}
            expanded.append(f"{arg}=true" if bare else arg)
        return super().parse_args(ctx, expanded)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of their groups, and other options under Options."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                heading = param.setting.group if isinstance(param, _SettingOption) else ""
                headings.setdefault(heading or "Options", []).append(record)
        if "Options" in headings:
            headings["Options"] = headings.pop("Options")
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)
        if self.table is not None:
            with formatter.section("Where settings come from"):
                formatter.write_text(
                    "Later sources take precedence: the default; FILE with lines key=value (camelCase or kebab-case; # "
                    f"starts a comment line); environment variables {self.table.prefix}NAME, such as "
                    f"{self.table.prefix}{self.table.settings[0].variable} (also with the prefixes "
                    f"{self.table.other_prefixes_text}); the command line as --key=value or --key value, in kebab-case "
                    "or camelCase. An empty value in FILE or on the command line resets a setting to its default; an "
                    f"empty environment variable is ignored, and an unknown one that begins with {OWN_PREFIX} and the "
                    "command's name is an error."
                )


class _SettingOption(click.Option):
    """The option of a setting; ``--help`` shows only its kebab-case spelling."""

    def __init__(self, *args: Any, setting: Setting, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.setting = setting

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None:
            return None
        shown = self.setting.options[0] if self.setting.is_switch else f"{self.setting.options[0]} {self.metavar}"
        return shown, record[1]


def with_settings(table: SettingsTable) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the argument ``[FILE]`` and an option for every setting of `table`, in all spellings, to a click command.

    The command receives ``file: Path | None`` and ``**options: str | None`` (by setting name) for `resolve_settings`.
    Its class should be `command_with(table)`, for the groups of ``--help`` and for bare switches.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for setting in reversed(table.settings):
            function = _option(setting)(function)
        return click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))(function)

    return decorate


def command_with(settings_table: SettingsTable) -> type[SettingsCommand]:
    """Return the class of a command with the settings of a table, for ``@click.command(cls=…)``."""
    return type("CommandWithSettings", (SettingsCommand,), {"table": settings_table})


def resolve_settings(table: SettingsTable, file: Path | None, options: dict[str, str | None]) -> Resolved:
    """Resolve the settings of `table` from the properties `file`, the environment and the command line `options`.

    Raises:
        ConfigurationError: see `resolve`; or `file` is a bundle, and the command reads none or another one.
    """
    context = click.get_current_context(silent=True)
    spelled = context.meta.get(_SPELLED) if context is not None else None
    if file is not None and _is_data(file):
        name = table.bundle_setting
        if not name:
            raise ConfigurationError(
                f"{file} is data, JSON or compressed; give a file of settings, with key=value lines."
            )
        if options.get(name) is not None:
            option = next(each for each in table.settings if each.name == name).options[0]
            raise ConfigurationError(
                f"{file} is a bundle, and {option} names another one; give one bundle, and settings in a file of "
                f"key=value lines."
            )
        options, file = {**options, name: str(file)}, None
    return resolve(table, file=file, environment=os.environ, options=options, spelled=spelled)


def _is_data(file: Path) -> bool:
    """Whether a file is JSON or compressed, such as a bundle or a report: no file of settings begins so.

    A pipe is not looked into: what is read from it is gone for the reader of the settings.
    """
    if not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            begin = opened.read(_BEGIN_BYTES)
    except OSError:
        return False  # reading the settings says why
    return begin.startswith(_GZIP) or begin.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")


def _option(setting: Setting) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    shown = f" [default: {setting.default_text}]" if setting.default_text else ""
    extra: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if setting.is_switch else {}
    if "FILE" in setting.value_text:
        extra["shell_complete"] = lambda _ctx, _param, incomplete: [CompletionItem(incomplete, type="file")]
    elif isinstance(setting.parse, Choice):
        words = setting.parse.allowed
        extra["shell_complete"] = lambda _ctx, _param, incomplete: [
            CompletionItem(word) for word in words if word.lower().startswith(incomplete.lower())
        ]
    if setting.repeatable:
        extra |= {"multiple": True, "callback": lambda _ctx, _param, texts: ",".join(texts) if texts else None}
    help_text = f"{setting.help}{shown}{' [required]' if setting.required else ''}"
    return click.option(
        *setting.options,
        setting.name,
        cls=_SettingOption,
        setting=setting,
        metavar=setting.value_text,
        help=help_text,
        **extra,
    )
