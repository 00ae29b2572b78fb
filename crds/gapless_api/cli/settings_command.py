"""The commands whose options are settings: their options, their help, and how their values are resolved.

Must not know which settings a command has.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.named_settings import Named, known_names, named_settings
from gapless_api.base.quantities import Choice
from gapless_api.base.settings import Resolved, Setting, SettingsTable, resolve
from gapless_api.base.variables import OWN_PREFIX
from gapless_api.cli.json_output import chosen_form, is_json, output_option
from gapless_api.cli.standard_input import readable

_SPELLED = "gapless.spelled"
"""The key of a context's names of settings as they were written on the command line."""
_BEGIN_BYTES = 512
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
"""Of settings in gapless.toml."""
_GZIP = b"\x1f\x8b"
_ALL = "gapless.help-all"
"""The key of a context whose help shows all settings."""
_COMMON = "Common settings"
_JSON = "json"
"""The setting of commands that print text or JSON."""


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
    """A command whose options are settings: ``--help-all`` lists them by group, and a bare switch means "true".

    ``--help`` shows the common ones alone, if the table names them.
    """

    table: SettingsTable | None = None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options, with ``--help-all`` if ``--help`` does not show all, and ``-o`` beside ``--json``."""
        params = super().get_params(ctx)
        if self.table is not None and any(each.name == _JSON for each in self.table.settings):
            params.append(output_option())
        return [*params, _HELP_ALL] if self.table is not None and self.table.common else params

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
        common = self.table.common if self.table is not None and not ctx.meta.get(_ALL) else ()
        headings: dict[str, list[tuple[str, str]]] = {}
        params = self.get_params(ctx)
        if common:
            by_name = {param.name: param for param in params}
            params = [*(by_name[name] for name in common), *(each for each in params if not _is_setting(each))]
        for param in params:
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                heading = param.setting.group if isinstance(param, _SettingOption) else ""
                headings.setdefault((_COMMON if common and heading else heading) or "Options", []).append(record)
        if "Options" in headings:
            headings["Options"] = headings.pop("Options")
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)
        if self.table is not None and common:
            with formatter.section("All settings"):
                formatter.write_text(
                    f"{ctx.command_path} --help-all shows all {len(self.table.settings)} settings. Each may also stand "
                    f"in FILE as a line key=value, in an environment variable {self.table.prefix}NAME, or under a name "
                    "in gapless.toml; the command line takes precedence."
                )
        elif self.table is not None:
            with formatter.section("Where settings come from"):
                formatter.write_text(
                    "Later sources take precedence: the default; a connection of gapless.toml; FILE with lines "
                    "key=value (camelCase or kebab-case; # starts a comment line), or a name of gapless.toml; "
                    f"environment variables {self.table.prefix}NAME, such as "
                    f"{self.table.prefix}{self.table.settings[0].variable} (also with the prefixes "
                    f"{self.table.other_prefixes_text}); the command line as --key=value or --key value, in kebab-case "
                    "or camelCase. An empty value in FILE or on the command line resets a setting to its default; an "
                    f"empty environment variable is ignored, and an unknown one that begins with {OWN_PREFIX} and the "
                    "command's name is an error."
                )


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 -- click's signature
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show all settings and exit.",
)


def _is_setting(param: click.Parameter) -> bool:
    return isinstance(param, _SettingOption)


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
    form = chosen_form()
    if form is not None:
        wanted = str(is_json()).lower()
        if options.get(_JSON) not in {None, wanted}:
            raise ConfigurationError(f"-o {form} and --json={options[_JSON]} contradict each other; give one of them.")
        options = {**options, _JSON: wanted}
    if file is not None:
        file = readable(file)
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
    given = _named(context, file) or file
    return resolve(table, file=given, environment=os.environ, options=options, spelled=spelled)


def _named(context: click.Context | None, file: Path | None) -> Named | None:
    """Return the settings of gapless.toml that FILE names, if there is no such file.

    Raises:
        ConfigurationError: gapless.toml has other names for this command, or cannot be read.
    """
    if context is None or file is None or not _NAME.fullmatch(str(file)) or file.exists():
        return None
    command, name = "-".join(context.command_path.split()[1:]), str(file)
    names = known_names(command, os.environ)
    if names and name not in names:
        raise ConfigurationError(
            f"There is no file {name}, and gapless.toml has no [{command}.{name}]; it has {', '.join(names)}."
        )
    return named_settings(command, name, os.environ) if names else None


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
