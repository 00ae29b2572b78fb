"""The command ``gapless bundle fetch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapless_api.base.files import check_distinct
from gapless_api.base.quantities import quantity
from gapless_api.cli.settings_command import AliasedOption

if TYPE_CHECKING:
    from gapless_archive.store.object_store import ObjectAddress


class _Address(click.ParamType[Any]):
    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from gapless_archive.store.object_store import ObjectAddress  # noqa: PLC0415 -- not needed for --help

        try:
            return ObjectAddress.parse(str(value))
        except ValueError as error:
            self.fail(f"{value!r} must be {error}", param, ctx)


_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("url", type=_Address())
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Where to write the bundle.")
@click.option("--sha256", metavar="DIGEST", help="Expected digest of the bundle, as gapless bundle show prints it.")
@click.option(
    "--s3-endpoint",
    "--s3-endpoint-url",
    "--endpoint-url",
    "endpoint_url",
    cls=AliasedOption,
    default="",
    help="Address of the store. [default: the public cloud's]",
)
@click.option(
    "--s3-region",
    "--region",
    "region",
    cls=AliasedOption,
    default="us-east-1",
    show_default=True,
    help="Region of the store.",
)
@click.option(
    "--s3-access-key-id-file",
    "--s3-access-key-file",
    "--access-key-file",
    "access_key_file",
    cls=AliasedOption,
    type=_FILE,
    help="File with the access key. If absent, requests are not signed.",
)
@click.option(
    "--s3-secret-access-key-file",
    "--s3-secret-key-file",
    "--secret-key-file",
    "secret_key_file",
    cls=AliasedOption,
    type=_FILE,
    help="File with the secret key.",
)
@click.option(
    "--s3-session-token-file",
    "--session-token-file",
    "session_token_file",
    cls=AliasedOption,
    type=_FILE,
    help="File with a session token.",
)
@click.option(
    "--s3-ca-file",
    "--ca-file",
    "ca_file",
    cls=AliasedOption,
    type=_FILE,
    help="Certificates (PEM) to trust in addition to the system's.",
)
@click.option(
    "--refuse-local-endpoint",
    is_flag=True,
    help="Reject a store whose address is loopback, link-local or a metadata service.",
)
def fetch(url: ObjectAddress, output: Path, sha256: str | None, *, refuse_local_endpoint: bool, **access: Any) -> None:
    """Fetch the bundle s3://BUCKET/KEY from an S3-compatible store and verify it. An invalid bundle is not kept.

    Credentials are read from files, so that neither the process list nor the environment shows them.
    """
    from gapless_archive.bundles import fetch_bundle  # noqa: PLC0415 -- not needed for --help
    from gapless_archive.store.access import S3Access, check_endpoint  # noqa: PLC0415
    from gapless_archive.store.object_store import open_store  # noqa: PLC0415

    check_distinct({"output": output}, {name: path for name, path in access.items() if isinstance(path, Path)})
    if refuse_local_endpoint:
        check_endpoint(access["endpoint_url"])
    bundle = fetch_bundle(open_store(url.bucket, S3Access(**access)), url, output, sha256=sha256)
    click.echo(f"Fetched {output} ({bundle.missing} missing in {quantity(len(bundle.results), 'partition')}).")
